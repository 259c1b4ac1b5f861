// An HTTP server on 127.0.0.1 that answers as a test scripts it: slowly, with errors, cut off, or with
// nonsense.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include "calyrex/base/json.h"
#include "tests/loopback.h"

namespace calyrex::test {

class OpenAiServer {
 public:
  struct Request {
    std::string method;
    std::string path;
    std::string authorization;
    std::string body;
    int number = 0;  // from 1

    Json json() const { return parse_json(body, "request"); }
  };
  struct Answer {
    int status = 200;
    std::string type = "application/json";
    std::map<std::string, std::string> headers;
    std::vector<std::string> pieces;    // the body
    std::chrono::milliseconds wait{0};  // before anything is sent
    std::chrono::milliseconds piece_wait{0};
    bool whole = true;     // false: the connection closes although more was announced
    bool hang_up = false;  // closes at once, without an answer
  };
  using Script = std::function<Answer(const Request&)>;

  explicit OpenAiServer(Script script) : script_(std::move(script)) {
    ::setenv("NO_PROXY", "127.0.0.1", 1);
    const Listener listener = listen_on_loopback(64);
    listener_ = listener.socket;
    port_ = listener.port;
    thread_ = std::thread([this] { accept_all(); });
  }
  OpenAiServer(const OpenAiServer&) = delete;
  OpenAiServer& operator=(const OpenAiServer&) = delete;
  ~OpenAiServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
    for (std::thread& connection : connections_) connection.join();
  }

  std::string url() const { return fmt::format("http://127.0.0.1:{}/v1", port_); }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// The most requests that waited for an answer at the same time.
  int most_at_once() const { return most_at_once_; }

  /// A chat completion that says `text`.
  static Answer says(const std::string& text, const std::string& reason = "stop") {
    const Json json = {{"object", "chat.completion"},
                       {"choices", Json::array({{{"index", 0},
                                                 {"message", {{"role", "assistant"}, {"content", text}}},
                                                 {"finish_reason", reason}}})},
                       {"usage", {{"prompt_tokens", 7}, {"completion_tokens", 3}, {"total_tokens", 10}}}};
    return {.pieces = {to_json_line(json)}};
  }
  /// The same as a stream, one piece an event.
  static Answer streams(const std::vector<std::string>& texts) {
    Answer answer{.type = "text/event-stream", .pieces = {": hello\r\n\r\n"}};
    for (const std::string& text : texts) {
      const Json json = {{"choices", Json::array({{{"index", 0}, {"delta", {{"content", text}}}}})}};
      answer.pieces.push_back("data: " + to_json_line(json) + "\r\n\r\n");
    }
    answer.pieces.push_back(
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n");
    return answer;
  }
  static Answer fails(int status, const std::string& message = "no") {
    return {.status = status, .pieces = {to_json_line({{"error", {{"message", message}}}})}};
  }

 private:
  void accept_all() {
    while (true) {
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      connections_.emplace_back([this, connection] {
        serve(connection);
        ::close(connection);
      });
    }
  }

  static bool read_request(int connection, Request& request) {
    std::string text;
    std::vector<char> buffer(1 << 16);
    size_t head_end = std::string::npos;
    while (true) {
      if (head_end == std::string::npos) head_end = text.find("\r\n\r\n");
      if (head_end != std::string::npos) {
        const std::string length = header_field(text.substr(0, head_end + 2), "Content-Length");
        const size_t body = length.empty() ? 0 : std::stoull(length);
        if (text.size() >= head_end + 4 + body) break;
      }
      const ssize_t count = ::recv(connection, buffer.data(), buffer.size(), 0);
      if (count <= 0) return false;
      text.append(buffer.data(), static_cast<size_t>(count));
    }
    const std::string head = text.substr(0, head_end + 2);
    const size_t path = head.find(' ') + 1;
    request.method = head.substr(0, path - 1);
    request.path = head.substr(path, head.find(' ', path) - path);
    request.authorization = header_field(head, "Authorization");
    request.body = text.substr(head_end + 4);
    return true;
  }

  void serve(int connection) {
    Request request;
    if (!read_request(connection, request)) return;
    const int open = ++open_;
    for (int most = most_at_once_; open > most && !most_at_once_.compare_exchange_weak(most, open);) {
    }
    {
      const std::lock_guard lock(mutex_);
      request.number = static_cast<int>(requests_.size()) + 1;
      requests_.push_back(request);
    }
    const Answer answer = script_(request);
    pause(answer.wait);
    --open_;  // before the client can know that it is answered
    send(connection, answer);
  }

  void send(int connection, const Answer& answer) {
    if (answer.hang_up) return;
    size_t size = answer.whole ? 0 : 1000;
    for (const std::string& piece : answer.pieces) size += piece.size();
    std::string head =
        fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\nConnection: close\r\n", answer.status, size);
    if (!answer.type.empty()) head += "Content-Type: " + answer.type + "\r\n";
    for (const auto& [name, value] : answer.headers) head += fmt::format("{}: {}\r\n", name, value);
    if (!send_text(connection, head + "\r\n")) return;
    for (const std::string& piece : answer.pieces) {
      pause(answer.piece_wait);
      if (stopping_ || !send_text(connection, piece)) return;
    }
  }

  /// Sleeps, but not beyond the server's end.
  void pause(std::chrono::milliseconds time) const {
    const auto end = std::chrono::steady_clock::now() + time;
    while (!stopping_ && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  static bool send_text(int connection, const std::string& text) {
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t count = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    return true;
  }

  Script script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
  std::vector<std::thread> connections_;  // the accepting thread's alone until it has ended
  std::atomic<bool> stopping_ = false;
  std::atomic<int> open_ = 0;
  std::atomic<int> most_at_once_ = 0;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
};

}  // namespace calyrex::test
