// A small HTTP/1.1 server on 127.0.0.1 for the tests of downloads: fixed answers, ranges, redirects, broken
// connections.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/loopback.h"

namespace calyrex::test {

class LoopbackServer {
 public:
  struct Answer {
    std::string body;
    int status = 200;
    std::map<std::string, std::string> headers;
    size_t break_after = SIZE_MAX;  // the first answer ends after so many bytes of the body
    bool ranges = true;
  };
  struct Request {
    std::string path;
    std::string range;
    std::string authorization;
  };

  LoopbackServer() {
    const Listener listener = listen_on_loopback(8);
    listener_ = listener.socket;
    port_ = listener.port;
    thread_ = std::thread([this] { run(); });
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;
  ~LoopbackServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

  void set(const std::string& path, Answer answer) {
    const std::lock_guard lock(mutex_);
    answers_[path] = std::move(answer);
  }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// The requests of one path.
  std::vector<Request> requests(const std::string& path) const {
    std::vector<Request> result;
    for (const Request& request : requests()) {
      if (request.path == path) result.push_back(request);
    }
    return result;
  }

 private:
  void run() {
    while (true) {
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      serve(connection);
      ::close(connection);
    }
  }

  void serve(int connection) {
    std::string head;
    char buffer[4096];
    while (head.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = ::recv(connection, buffer, sizeof(buffer), 0);
      if (count <= 0) return;
      head.append(buffer, static_cast<size_t>(count));
    }
    const size_t path_begin = head.find(' ') + 1;
    const Request request{head.substr(path_begin, head.find(' ', path_begin) - path_begin),
                          header_field(head, "Range"), header_field(head, "Authorization")};
    Answer answer{.body = "not here", .status = 404, .headers = {}};
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
      if (const auto found = answers_.find(request.path); found != answers_.end()) {
        answer = found->second;
        found->second.break_after = SIZE_MAX;
      }
    }
    reply(connection, request, answer);
  }

  static void reply(int connection, const Request& request, Answer answer) {
    const size_t size = answer.body.size();
    if (!request.range.empty() && answer.ranges && answer.status == 200) {
      const size_t first = std::stoull(request.range.substr(6));  // "bytes=17-"
      answer.status = first < size ? 206 : 416;
      answer.headers["Content-Range"] = first < size ? fmt::format("bytes {}-{}/{}", first, size - 1, size)
                                                     : fmt::format("bytes */{}", size);
      answer.body = first < size ? answer.body.substr(first) : "";
    }
    std::string text = fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\nConnection: close\r\n",
                                   answer.status, answer.body.size());
    for (const auto& [name, value] : answer.headers) text += fmt::format("{}: {}\r\n", name, value);
    text += "\r\n" + answer.body.substr(0, answer.break_after);
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t count = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
    }
  }

  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::map<std::string, Answer> answers_;
  std::vector<Request> requests_;
};

}  // namespace calyrex::test
