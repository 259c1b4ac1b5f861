#include "calyrex/train/dataset.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "calyrex/base/file.h"
#include "calyrex/base/log.h"
#include "calyrex/base/sha256.h"

namespace calyrex::train {

namespace {

/// No row of text has as many bytes a token on average; a longer one need not be tokenised to be left out.
constexpr int64_t kMaxBytesPerToken = 256;

int64_t content_bytes(const text::Messages& messages) {
  int64_t bytes = 0;
  for (const text::Message& message : messages) bytes += static_cast<int64_t>(message.content.size());
  return bytes;
}

}  // namespace

int64_t TrainingRow::num_label_tokens() const {
  int64_t count = 0;
  for (const TokenSpan& span : label_spans) count += span.length();
  return count;
}

ChatFiles read_chat_files(const std::vector<std::string>& paths) {
  ChatFiles result;
  for (const std::string& path : paths) {
    const size_t before = result.rows.size();
    Sha256 digest;
    digest.update(MappedFile::open(path).bytes());
    data::for_each_row(path, [&](data::ChatRow row) { result.rows.push_back(std::move(row)); });
    if (result.rows.size() == before) fail(ErrorCode::kInvalidArgument, "{} holds no rows", path);
    result.files.push_back({.path = path,
                            .sha256 = digest.hex_digest(),
                            .num_rows = static_cast<int64_t>(result.rows.size() - before)});
  }
  return result;
}

EncodedRows::EncodedRows(std::vector<data::ChatRow> rows, std::shared_ptr<const text::ChatEncoder> encoder,
                         Options options, std::function<void(const DataSummary&)> on_done)
    : rows_(std::move(rows)),
      encoder_(std::move(encoder)),
      options_(options),
      on_done_(std::move(on_done)),
      encoded_(rows_.size()),
      done_(rows_.size(), false) {
  for (int i = 0; i < options_.num_threads; ++i) workers_.emplace_back([this] { work(); });
}

EncodedRows::~EncodedRows() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  for (std::thread& worker : workers_) worker.join();
}

TrainingRow EncodedRows::encode(const data::ChatRow& row, DataSummary& counts) const {
  TrainingRow result;
  result.id = row.id;
  counts.rows = 1;
  const bool has_assistant =
      std::any_of(row.messages.begin(), row.messages.end(),
                  [](const text::Message& message) { return message.role == "assistant"; });
  if (!has_assistant) {
    counts.without_labels = 1;
    return result;
  }
  if (content_bytes(row.messages) / kMaxBytesPerToken > options_.max_tokens) {
    counts.too_long = 1;
    return result;
  }
  text::EncodedChat chat = encoder_->encode(row.messages, text::GenerationPrompt::kNone, row.tools);
  TokenSpans labels = std::move(chat.assistant_spans);
  if (options_.labels == Labels::kLast && labels.size() > 1) labels.erase(labels.begin(), labels.end() - 1);
  // Nothing precedes the first token that could predict it.
  for (TokenSpan& span : labels) span.begin = std::max<int64_t>(span.begin, 1);
  std::erase_if(labels, [](const TokenSpan& span) { return span.length() <= 0; });
  counts.without_span = chat.system_spans.empty() ? 1 : 0;
  if (labels.empty()) {
    counts.without_labels = 1;
  } else if (static_cast<int64_t>(chat.token_ids.size()) > options_.max_tokens) {
    counts.too_long = 1;
  } else {
    result.token_ids = std::move(chat.token_ids);
    result.system_spans = std::move(chat.system_spans);
    result.label_spans = std::move(labels);
    counts.last_turn_only = chat.append_only ? 0 : 1;
    counts.tokens = result.num_tokens();
    counts.label_tokens = result.num_label_tokens();
  }
  return result;
}

void EncodedRows::work() {
  while (true) {
    int64_t row = 0;
    {
      const std::lock_guard lock(mutex_);
      if (stop_ || error_ || next_ == size()) return;
      row = next_++;
    }
    const auto index = static_cast<size_t>(row);
    DataSummary counts;
    std::exception_ptr error;
    try {
      encoded_[index] = with_context(rows_[index].source, [&] { return encode(rows_[index], counts); });
      rows_[index] = {};
    } catch (...) {
      error = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    if (error && !error_) error_ = error;
    done_[index] = true;
    ++num_done_;
    summary_.rows += counts.rows;
    summary_.too_long += counts.too_long;
    summary_.without_labels += counts.without_labels;
    summary_.without_span += counts.without_span;
    summary_.last_turn_only += counts.last_turn_only;
    summary_.tokens += counts.tokens;
    summary_.label_tokens += counts.label_tokens;
    const bool last = num_done_ == size() && !error_;
    progressed_.notify_all();
    lock.unlock();
    if (last) finish();
  }
}

void EncodedRows::finish() {
  std::exception_ptr error;
  try {
    on_done_(summary_);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  error_ = error;
  finished_ = true;
  progressed_.notify_all();
}

const TrainingRow& EncodedRows::at(int64_t row) const {
  const auto index = static_cast<size_t>(row);
  std::unique_lock lock(mutex_);
  progressed_.wait(lock, [&] { return done_[index] || error_; });
  if (error_) std::rethrow_exception(error_);
  return encoded_[index];
}

bool EncodedRows::wait_for(int milliseconds) const {
  std::unique_lock lock(mutex_);
  progressed_.wait_for(lock, std::chrono::milliseconds(milliseconds), [&] { return finished_ || error_; });
  if (error_) std::rethrow_exception(error_);
  return finished_;
}

void report_summary(const DataSummary& summary, std::string_view what, int64_t max_tokens) {
  const int64_t kept = summary.rows - summary.too_long - summary.without_labels;
  if (summary.too_long > 0) {
    log_warning("{} of {} {} rows are longer than {} tokens and are left out", summary.too_long, summary.rows,
                what, max_tokens);
  }
  if (summary.without_labels > 0) {
    log_warning("{} of {} {} rows have no assistant message and are left out", summary.without_labels,
                summary.rows, what);
  }
  if (kept == 0) {
    fail(ErrorCode::kInvalidArgument,
         "no {} row is left: {} of {} are longer than data.max_tokens ({}), {} have no assistant message",
         what, summary.too_long, summary.rows, max_tokens, summary.without_labels);
  }
  if (summary.last_turn_only > 0) {
    log_warning(
        "the chat template writes earlier turns differently once later ones follow: of {} {} rows only the "
        "last "
        "assistant message is learnt",
        summary.last_turn_only, what);
  }
  log_info("{} data: {} rows, {} tokens, {} of them labels", what, kept, summary.tokens,
           summary.label_tokens);
  const double share = static_cast<double>(summary.without_span) / static_cast<double>(summary.rows);
  const std::string line = fmt::format("{:.1f} % of the {} rows have no system span", 100.0 * share, what);
  if (share > 0.5) {
    log_warning("{}: the blocks' attention learns nothing from them", line);
  } else {
    log_info("{}", line);
  }
}

}  // namespace calyrex::train
