// What the tests' small HTTP servers share: a listening socket on 127.0.0.1 and the fields of a request.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace calyrex::test {

struct Listener {
  int socket = -1;
  uint16_t port = 0;
};

/// Listens on a free port. Throws std::runtime_error.
inline Listener listen_on_loopback(int backlog) {
  Listener listener{.socket = ::socket(AF_INET, SOCK_STREAM, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (::bind(listener.socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener.socket, backlog) != 0 ||
      ::getsockname(listener.socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("no loopback socket");
  }
  listener.port = ntohs(address.sin_port);
  return listener;
}

/// A field of a request's head; empty when it is absent.
inline std::string header_field(const std::string& head, const std::string& name) {
  const size_t begin = head.find("\r\n" + name + ": ");
  if (begin == std::string::npos) return "";
  const size_t value = begin + name.size() + 4;
  return head.substr(value, head.find("\r\n", value) - value);
}

}  // namespace calyrex::test
