#include "calyrex/study/analysis_generate.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "calyrex/base/error.h"

namespace calyrex::study {
namespace {

int64_t span_tokens(const TokenSpans& spans) {
  int64_t total = 0;
  for (const TokenSpan& span : spans) total += span.length();
  return total;
}

/// Runs of rows [sum of lengths, heads, dim] as [runs, heads, capacity, dim], zeros behind each.
at::Tensor pad_runs(const at::Tensor& rows, const std::vector<int64_t>& lengths, int64_t capacity) {
  at::Tensor padded =
      at::zeros({static_cast<int64_t>(lengths.size()), rows.size(1), capacity, rows.size(2)}, rows.options());
  int64_t begin = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    padded[static_cast<int64_t>(i)]
        .narrow(1, 0, lengths[i])
        .copy_(rows.narrow(0, begin, lengths[i]).transpose(0, 1));
    begin += lengths[i];
  }
  return padded;
}

/// One query a run over the first lengths[i] keys of it: q [runs, heads, dim] -> the same shape.
at::Tensor attend_padded(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
                         const std::vector<int64_t>& lengths) {
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const at::Tensor numbers = at::arange(longest, at::TensorOptions(at::kLong).device(q.device()));
  const at::Tensor seen = numbers < index_tensor(lengths, q.device()).unsqueeze(1);
  return at::scaled_dot_product_attention(q.unsqueeze(2), keys.narrow(2, 0, longest),
                                          values.narrow(2, 0, longest), seen.unsqueeze(1).unsqueeze(1),
                                          /*dropout_p=*/0.0, /*is_causal=*/false, /*scale=*/std::nullopt,
                                          /*enable_gqa=*/true)
      .squeeze(2);
}

/// Self-attention that keeps keys and values: first whole prompts, then one token a sequence and step.
class CachedAttention final : public model::Attention {
 public:
  CachedAttention(model::Attention* prompts, std::vector<int64_t> lengths, int64_t new_tokens, int64_t layers)
      : prompts_(prompts),
        lengths_(std::move(lengths)),
        capacity_(*std::max_element(lengths_.begin(), lengths_.end()) + new_tokens),
        keys_(static_cast<size_t>(layers)),
        values_(static_cast<size_t>(layers)) {}

  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    at::Tensor &keys = keys_[static_cast<size_t>(layer)], &values = values_[static_cast<size_t>(layer)];
    if (prompts_ != nullptr) {
      keys = pad_runs(k, lengths_, capacity_);
      values = pad_runs(v, lengths_, capacity_);
      return prompts_->attend(layer, q, k, v);
    }
    std::vector<int64_t> seen = lengths_;
    for (size_t i = 0; i < lengths_.size(); ++i) {
      const auto n = static_cast<int64_t>(i);
      keys[n].select(1, lengths_[i]).copy_(k[n]);
      values[n].select(1, lengths_[i]).copy_(v[n]);
      ++seen[i];
    }
    return attend_padded(q, keys, values, seen);
  }

  /// After the prompts, and after each step.
  void end_prompts() { prompts_ = nullptr; }
  void end_step() {
    for (int64_t& length : lengths_) ++length;
  }
  const std::vector<int64_t>& lengths() const { return lengths_; }

 private:
  model::Attention* prompts_;
  std::vector<int64_t> lengths_;
  int64_t capacity_;
  std::vector<at::Tensor> keys_, values_;
};

/// The plan of the blocks with a donor's keys, which stand behind the batch's own, for every query after a
/// span.
model::AttentionPlan plan_with_donors(const model::RaggedBatch& batch, const model::CalPlan& plan,
                                      const SpanValues& donors) {
  std::map<int64_t, std::pair<int64_t, int64_t>> donor_of;  // first own key -> the donor's keys
  int64_t own = 0, foreign = plan.attention.num_keys;
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    donor_of[own] = {foreign, foreign + donors.lengths[i]};
    own += span_tokens(batch.sequences[i].system_spans);
    foreign += donors.lengths[i];
  }
  model::AttentionPlan result = plan.attention;
  result.num_keys = foreign;
  for (model::AttentionSegment& segment : result.segments) {
    if (!segment.causal) std::tie(segment.key_begin, segment.key_end) = donor_of.at(segment.key_begin);
  }
  return result;
}

/// Attention of the blocks while an answer is written: keys and values come from the prompts' spans or their
/// donors'.
class SpanKeeper final : public model::Attention {
 public:
  SpanKeeper(model::Attention* prompts, std::vector<int64_t> lengths, const SpanValues* donors)
      : prompts_(prompts), lengths_(std::move(lengths)), donors_(donors) {}

  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    if (prompts_ == nullptr) return attend_padded(q, keys_.at(layer), values_.at(layer), lengths_);
    const int64_t longest = *std::max_element(lengths_.begin(), lengths_.end());
    if (donors_ == nullptr) {
      keys_[layer] = pad_runs(k, lengths_, longest);
      values_[layer] = pad_runs(v, lengths_, longest);
      return prompts_->attend(layer, q, k, v);
    }
    const at::Tensor &donor_keys = donors_->keys.at(layer), &donor_values = donors_->values.at(layer);
    keys_[layer] = pad_runs(donor_keys, lengths_, longest);
    values_[layer] = pad_runs(donor_values, lengths_, longest);
    return prompts_->attend(layer, q, at::cat({k, donor_keys}), at::cat({v, donor_values}));
  }

  void end_prompts() { prompts_ = nullptr; }

 private:
  model::Attention* prompts_;
  std::vector<int64_t> lengths_;
  const SpanValues* donors_;
  std::map<int64_t, at::Tensor> keys_, values_;
};

/// Takes down what the blocks' attention is given.
class SpanTap final : public model::Attention {
 public:
  SpanTap(model::Attention* inner, SpanValues& values) : inner_(inner), values_(values) {}
  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    values_.keys[layer] = k;
    values_.values[layer] = v;
    return inner_->attend(layer, q, k, v);
  }

 private:
  model::Attention* inner_;
  SpanValues& values_;
};

std::vector<int64_t> most_likely(const model::Decoder& decoder, const at::Tensor& hidden) {
  const at::Tensor best = decoder.logits(decoder.final_norm(hidden)).argmax(1).cpu().contiguous();
  return {best.const_data_ptr<int64_t>(), best.const_data_ptr<int64_t>() + best.numel()};
}

/// One batch of answers being written.
class Writing {
 public:
  Writing(const StudiedModel& model, std::span<const model::SequenceInput> prompts,
          const GenerateOptions& options)
      : model_(model),
        options_(options),
        batch_(model::pack(prompts, model.decoder->config().vocab_size, model.decoder->device())),
        forward_(batch_, model.adapter.get(), model.scale),
        answers_(prompts.size()),
        done_(prompts.size(), false) {
    std::vector<int64_t> lengths;
    for (const model::SequenceInput& prompt : prompts) {
      lengths.push_back(static_cast<int64_t>(prompt.token_ids.size()));
    }
    self_ = std::make_unique<CachedAttention>(forward_.context().self_attention, lengths,
                                              options.max_new_tokens, model.decoder->config().num_layers);
    forward_.context().self_attention = self_.get();
    if (!forward_.context().adapters.empty()) watch_blocks(forward_.context().adapters.front());
  }

  std::vector<std::vector<TokenId>> run() {
    at::Tensor hidden = run_layers(batch_.token_ids, forward_.context());
    std::vector<int64_t> ends;
    for (const auto& sequence : batch_.sequences) ends.push_back(sequence.end() - 1);
    std::vector<int64_t> next =
        most_likely(*model_.decoder, hidden.index_select(0, index_tensor(ends, device())));
    self_->end_prompts();
    if (spans_ != nullptr) spans_->end_prompts();
    while (take(next)) {
      const model::ForwardContext context = step_context();
      next = most_likely(*model_.decoder, run_layers(index_tensor(next, device()), context));
      self_->end_step();
    }
    return std::move(answers_);
  }

 private:
  at::Device device() const { return model_.decoder->device(); }

  at::Tensor run_layers(const at::Tensor& tokens, const model::ForwardContext& context) const {
    return model_.decoder->run_layers(model_.decoder->embed(tokens), 0, model_.decoder->config().num_layers,
                                      context);
  }

  void watch_blocks(model::AdapterGroup& group) {
    group.observer = options_.observer;
    if (group.attention == nullptr) return;
    std::vector<int64_t> lengths;
    for (size_t i = 0; i < batch_.sequences.size(); ++i) {
      const int64_t own = span_tokens(batch_.sequences[i].system_spans);
      if (own == 0) continue;
      with_span_.push_back(static_cast<int64_t>(i));
      lengths.push_back(options_.donors == nullptr ? own : options_.donors->lengths[i]);
    }
    if (options_.donors != nullptr) {
      CALYREX_CHECK(lengths.size() == batch_.sequences.size(),
                    "a prompt without a span has no place for a donor");
      const model::CalPlan plan = model::cal_plan(batch_, model_.adapter->config().cal.self_inclusion);
      donor_attention_ =
          std::make_unique<model::PlanAttention>(plan_with_donors(batch_, plan, *options_.donors));
      group.attention = donor_attention_.get();
    }
    spans_ = std::make_unique<SpanKeeper>(group.attention, std::move(lengths), options_.donors);
    group.attention = spans_.get();
  }

  /// Appends the tokens to answers that go on; false when all are complete.
  bool take(const std::vector<int64_t>& next) {
    bool open = false;
    for (size_t i = 0; i < next.size(); ++i) {
      const auto token = static_cast<TokenId>(next[i]);
      const auto& stops = options_.stop_ids;
      done_[i] = done_[i] || std::find(stops.begin(), stops.end(), token) != stops.end();
      if (done_[i]) continue;
      answers_[i].push_back(token);
      done_[i] = static_cast<int64_t>(answers_[i].size()) >= options_.max_new_tokens;
      open = open || !done_[i];
    }
    return open;
  }

  model::ForwardContext step_context() const {
    model::ForwardContext context;
    context.positions = index_tensor(self_->lengths(), device());
    context.self_attention = self_.get();
    if (forward_.context().adapters.empty()) return context;
    const model::AdapterGroup& prompts = forward_.context().adapters.front();
    model::AdapterGroup group{
        .adapter = prompts.adapter, .scale = prompts.scale, .observer = prompts.observer};
    if (!with_span_.empty()) {
      group.query_rows = index_tensor(with_span_, device());
      group.query_positions = context.positions.index_select(0, group.query_rows);
      group.attention = spans_.get();
    }
    context.adapters.push_back(std::move(group));
    return context;
  }

  const StudiedModel& model_;
  const GenerateOptions& options_;
  model::RaggedBatch batch_;
  model::PlannedForward forward_;
  std::unique_ptr<CachedAttention> self_;
  std::unique_ptr<model::PlanAttention> donor_attention_;
  std::unique_ptr<SpanKeeper> spans_;
  std::vector<int64_t> with_span_;
  std::vector<std::vector<TokenId>> answers_;
  std::vector<bool> done_;
};

}  // namespace

SpanValues compute_span_values(const StudiedModel& model, std::span<const model::SequenceInput> sequences) {
  const at::NoGradGuard no_grad;
  SpanValues result;
  std::vector<model::SequenceInput> heads;
  for (model::SequenceInput input : sequences) {
    CALYREX_CHECK(!input.system_spans.empty(), "a donor without a span");
    result.lengths.push_back(span_tokens(input.system_spans));
    input.token_ids.resize(static_cast<size_t>(input.system_spans.back().end));
    heads.push_back(std::move(input));
  }
  const model::RaggedBatch batch =
      model::pack(heads, model.decoder->config().vocab_size, model.decoder->device());
  model::PlannedForward forward(batch, model.adapter.get(), model.scale);
  model::AdapterGroup& group = forward.context().adapters.front();
  SpanTap tap(group.attention, result);
  group.attention = &tap;
  model.decoder->run_layers(model.decoder->embed(batch.token_ids), 0, model.decoder->config().num_layers,
                            forward.context());
  return result;
}

std::vector<std::vector<TokenId>> generate_greedy(const StudiedModel& model,
                                                  std::span<const model::SequenceInput> prompts,
                                                  const GenerateOptions& options) {
  const at::NoGradGuard no_grad;
  return Writing(model, prompts, options).run();
}

}  // namespace calyrex::study
