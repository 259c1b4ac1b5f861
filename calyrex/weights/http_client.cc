#include "calyrex/weights/http_client.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <string_view>

#include <curl/curl.h>
#include <dlfcn.h>

#include "calyrex/base/error.h"

namespace calyrex::weights {
namespace {

constexpr long kMaxRedirects = 10;
constexpr size_t kMaxHeaders = 200;
constexpr size_t kMaxHeaderBytes = 8192;

/// The functions of libcurl that are used here.
struct Curl {
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
};

template <typename Function>
Function symbol(void* library, const char* name) {
  void* address = ::dlsym(library, name);
  if (address == nullptr)
    fail(ErrorCode::kUnavailable, "libcurl.so.4 lacks {}; install the package libcurl4", name);
  return reinterpret_cast<Function>(address);
}

const Curl& curl() {
  static const Curl loaded = [] {
    void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      fail(ErrorCode::kUnavailable,
           "requests over the network need libcurl.so.4, which is not there; install the package libcurl4");
    }
    const auto init = symbol<decltype(&curl_global_init)>(library, "curl_global_init");
    if (init(CURL_GLOBAL_DEFAULT) != CURLE_OK) fail(ErrorCode::kUnavailable, "libcurl does not start");
    return Curl{symbol<decltype(&curl_easy_init)>(library, "curl_easy_init"),
                symbol<decltype(&curl_easy_cleanup)>(library, "curl_easy_cleanup"),
                symbol<decltype(&curl_easy_setopt)>(library, "curl_easy_setopt"),
                symbol<decltype(&curl_easy_perform)>(library, "curl_easy_perform"),
                symbol<decltype(&curl_easy_getinfo)>(library, "curl_easy_getinfo"),
                symbol<decltype(&curl_easy_strerror)>(library, "curl_easy_strerror"),
                symbol<decltype(&curl_slist_append)>(library, "curl_slist_append"),
                symbol<decltype(&curl_slist_free_all)>(library, "curl_slist_free_all")};
  }();
  return loaded;
}

/// State of one request, reached from libcurl's callbacks.
struct Transfer {
  CURL* handle = nullptr;
  HttpResponse response;
  const HttpRequest* request = nullptr;
  const HttpBody* body = nullptr;
  std::exception_ptr error;  // of `body`: C code must not be unwound
};

using HeaderList = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

size_t receive_header(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * count);
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || line.size() > kMaxHeaderBytes) return line.size();
  if (transfer.response.headers.size() >= kMaxHeaders) return line.size();
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  });
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == '\r' || value.back() == '\n' || value.back() == ' '))
    value.remove_suffix(1);
  transfer.response.headers[std::move(name)] = value;
  return line.size();
}

void read_status(Transfer& transfer) {
  long status = 0;
  curl().easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  transfer.response.status = status;
}

size_t receive_body(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  try {
    read_status(transfer);
    (*transfer.body)(transfer.response, std::as_bytes(std::span(data, bytes)));
    return bytes;
  } catch (...) {
    transfer.error = std::current_exception();
    return CURL_WRITEFUNC_ERROR;
  }
}

int report_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    return transfer.request->cancelled() ? 1 : 0;
  } catch (...) {
    transfer.error = std::current_exception();
    return 1;
  }
}

template <typename Value>
void set_option(CURL* handle, CURLoption option, Value value) {
  CALYREX_CHECK(curl().easy_setopt(handle, option, value) == CURLE_OK, "option {}", static_cast<int>(option));
}

void set_options(const HttpRequest& request, Transfer& transfer) {
  const auto set = [&](CURLoption option, auto value) { set_option(transfer.handle, option, value); };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, kMaxRedirects);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout_ms));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.silent_seconds));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.total_timeout_ms));
  if (request.cancelled) {
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &report_progress);
    set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
  }
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "calyrex");
  if (!request.bearer_token.empty()) {
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    set(CURLOPT_XOAUTH2_BEARER, request.bearer_token.c_str());
  }
  if (request.first_byte > 0) set(CURLOPT_RANGE, fmt::format("{}-", request.first_byte).c_str());
  set(CURLOPT_HEADERFUNCTION, &receive_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(CURLOPT_WRITEFUNCTION, &receive_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
}

/// The list of headers of a JSON body; "Expect:" keeps libcurl from waiting for leave to send a large one.
HeaderList json_headers() {
  HeaderList headers(nullptr, curl().slist_free_all);
  for (const char* line : {"Content-Type: application/json", "Expect:"}) {
    curl_slist* longer = curl().slist_append(headers.get(), line);
    if (longer == nullptr) fail(ErrorCode::kOutOfMemory, "no memory for a request");
    static_cast<void>(headers.release());  // part of `longer` now
    headers.reset(longer);
  }
  return headers;
}

HttpResponse perform(const HttpRequest& request, const std::string_view* json, const HttpBody& body) {
  Transfer transfer;
  transfer.request = &request;
  transfer.body = &body;
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl().easy_init(), curl().easy_cleanup);
  if (handle == nullptr) fail(ErrorCode::kOutOfMemory, "no memory for a request");
  transfer.handle = handle.get();
  set_options(request, transfer);
  HeaderList headers(nullptr, curl().slist_free_all);
  if (json != nullptr) {
    headers = json_headers();
    set_option(handle.get(), CURLOPT_HTTPHEADER, headers.get());
    set_option(handle.get(), CURLOPT_FOLLOWLOCATION, 0L);
    set_option(handle.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json->size()));
    set_option(handle.get(), CURLOPT_POSTFIELDS, json->data());
  }
  std::array<char, CURL_ERROR_SIZE> reason{};
  curl().easy_setopt(handle.get(), CURLOPT_ERRORBUFFER, reason.data());
  const CURLcode code = curl().easy_perform(handle.get());
  if (transfer.error) std::rethrow_exception(transfer.error);
  if (code == CURLE_ABORTED_BY_CALLBACK) fail(ErrorCode::kCancelled, "{}: cancelled", request.url);
  if (code != CURLE_OK) {
    fail(ErrorCode::kUnavailable, "{}: {}", request.url,
         reason[0] != '\0' ? reason.data() : curl().easy_strerror(code));
  }
  read_status(transfer);
  return std::move(transfer.response);
}

}  // namespace

HttpResponse http_get(const HttpRequest& request, const HttpBody& body) {
  return perform(request, nullptr, body);
}

HttpResponse http_post(const HttpRequest& request, std::string_view json, const HttpBody& body) {
  return perform(request, &json, body);
}

}  // namespace calyrex::weights
