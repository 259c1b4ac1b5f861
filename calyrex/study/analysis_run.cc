#include "calyrex/study/analysis_run.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/log.h"
#include "calyrex/data/grader.h"
#include "calyrex/infer/core/prompt_encoder.h"
#include "calyrex/model/device.h"
#include "calyrex/study/analysis_attention.h"
#include "calyrex/study/analysis_batch.h"
#include "calyrex/study/analysis_probe.h"
#include "calyrex/study/analysis_switches.h"
#include "calyrex/weights/adapter_folder.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::study {
namespace {

constexpr int64_t kBatchRows = 16;

/// A matrix as nested lists, to four significant digits.
Json matrix_json(const at::Tensor& matrix) {
  Json rows = Json::array();
  const at::Tensor values = matrix.to(at::kDouble).contiguous();
  for (int64_t i = 0; i < values.size(0); ++i) {
    Json row = Json::array();
    for (int64_t j = 0; j < values.size(1); ++j) {
      row.push_back(
          std::stod(fmt::format("{:.4g}", values.const_data_ptr<double>()[i * values.size(1) + j])));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Everything the parts of the analysis share.
class Analysis {
 public:
  explicit Analysis(const AnalysisOptions& options)
      : options_(options), source_(weights::open_model(options.model.model)) {
    if (options.adapter) {
      const auto mismatch =
          options.model.allow_base_mismatch ? weights::BaseMismatch::kAllow : weights::BaseMismatch::kReject;
      folder_ = weights::open_adapter(*options.adapter, *source_, mismatch);
      if (folder_->config.kind == weights::AdapterKind::kFull) {
        fail(ErrorCode::kUnsupported,
             "{}: a full fine-tune is a model of its own; give its folder as --model",
             options.adapter->string());
      }
    }
    encoder_ = std::make_unique<text::ChatEncoder>(
        source_->tokenizer(), text::Tokenizer::create(source_->tokenizer()),
        infer::chat_options(*source_, options.model, folder_ ? &*folder_ : nullptr));
    rows_ = read_analysis_rows(options.data, *encoder_, options.limit, options.seed,
                               source_->config().max_positions);
    const at::Device device = model::resolve_device(options.model.device);
    const at::ScalarType dtype = model::resolve_dtype(options.model.dtype, device);
    model_.decoder = model::Decoder::load(*source_, dtype, device);
    if (folder_) {
      model_.adapter =
          model::load_adapter(*folder_, source_->config(), dtype, device, model::AdapterUse::kServe);
      model_.scale = options.scale;
    }
    batches_ = make_batches(rows_, kBatchRows, *model_.decoder);
  }

  Json report() {
    Json report = {{"format", "calyrex-analysis"}, {"version", 1}, {"model", source_->name()}};
    report["adapter"] = describe_adapter();
    report["dtype"] = model::dtype_text(model_.decoder->dtype());
    report["data"] = options_.data.filename().string();
    report["seed"] = options_.seed;
    report["rows"] = rows_.size();
    report["layers"] = Json::array({"embedding"});
    for (int64_t layer = 0; layer < source_->config().num_layers; ++layer) {
      report["layers"].push_back(std::to_string(layer));
    }
    add_states(report);
    add_span_attention(report);
    add_blocks(report);
    add_switches(report);
    return report;
  }

 private:
  Json describe_adapter() const {
    if (!folder_) return nullptr;
    return {{"path", folder_->path.string()},
            {"kind", to_string(folder_->config.kind)},
            {"scale", model_.scale},
            {"placement", folder_->config.placement},
            {"content_sha256", folder_->content_sha256}};
  }

  /// "base", and "adapter" where there is one.
  std::vector<std::pair<std::string, StudiedModel>> subjects() const {
    std::vector<std::pair<std::string, StudiedModel>> result = {{"base", model_.base()}};
    if (model_.adapter != nullptr) result.emplace_back("adapter", model_);
    return result;
  }

  void add_states(Json& report) {
    const RuleLabels rules = label_rules(rows_);
    std::vector<std::string> wordings;
    for (const AnalysisRow& row : rows_) wordings.push_back(row.rule.wording);
    const ProbeSplit split = split_for_probe(rules.labels, wordings, options_.seed);
    const auto classes = static_cast<int64_t>(rules.names.size());
    int64_t majority = 0;
    std::vector<int64_t> counts(rules.names.size());
    for (const int64_t row : split.test)
      ++counts[static_cast<size_t>(rules.labels[static_cast<size_t>(row)])];
    for (const int64_t count : counts) majority = std::max(majority, count);
    const auto tested = static_cast<int64_t>(split.test.size());
    report["probe"] = {
        {"rules", rules.names},
        {"chance", 1.0 / static_cast<double>(classes)},
        {"majority", tested == 0 ? 0.0 : static_cast<double>(majority) / static_cast<double>(tested)},
        {"train_rows", split.train.size()},
        {"test_rows", tested}};
    const auto without = make_batches_without_system(rows_, kBatchRows, *model_.decoder);
    for (const auto& [name, subject] : subjects()) {
      const std::vector<at::Tensor> states = last_states(subject, batches_),
                                    other = last_states(subject, without);
      report["probe"][name] = Json::array();
      report["difference"][name] = Json::array();
      for (size_t layer = 0; layer < states.size(); ++layer) {
        progress_.show(fmt::format("probes of {}: layer {} of {}", name, layer, states.size() - 1));
        const int64_t hits = tested == 0 ? 0 : probe_hits(states[layer], rules.labels, classes, split);
        report["probe"][name].push_back(data::estimate_to_json(data::wilson_share(hits, tested)));
        const at::Tensor difference = (states[layer] - other[layer]).norm(2, 1) / states[layer].norm(2, 1);
        report["difference"][name].push_back(difference.mean().item<double>());
      }
    }
  }

  void add_span_attention(Json& report) {
    for (const auto& [name, subject] : subjects()) {
      progress_.show(fmt::format("attention of {}", name));
      const SpanAttention attention = measure_span_attention(subject, batches_);
      report["span_attention"][name] = {{"last_prompt_token", matrix_json(attention.last_prompt_token)},
                                        {"answer", matrix_json(attention.answer)}};
    }
    double share = 0.0;
    for (const AnalysisRow& row : rows_) {
      int64_t tokens = 0;
      for (const TokenSpan& span : row.system_spans) tokens += span.length();
      share += static_cast<double>(tokens) / static_cast<double>(row.answer.begin);
    }
    report["span_attention"]["even_share"] = share / static_cast<double>(rows_.size());
  }

  void add_blocks(Json& report) {
    report["blocks"] = nullptr;
    report["examples"] = nullptr;
    if (model_.blocks().empty()) return;
    progress_.show("blocks");
    const BlockMeasures measures = measure_blocks(model_, batches_, static_cast<size_t>(options_.examples));
    report["blocks"] = Json::array();
    for (const auto& [layer, activity] : measures.activity) {
      report["blocks"].push_back({{"layer", layer},
                                  {"attention_ratio", activity.attention_ratio},
                                  {"mlp_ratio", activity.mlp_ratio},
                                  {"focus", activity.focus}});
    }
    if (measures.weights.empty()) return;
    report["examples"] = Json::array();
    const size_t shown = measures.weights.begin()->second.size();
    size_t example = 0;
    for (const AnalysisRow& row : rows_) {
      if (row.system_spans.empty()) continue;
      if (example == shown) break;
      report["examples"].push_back(describe_example(row, measures, example++));
    }
  }

  Json describe_example(const AnalysisRow& row, const BlockMeasures& measures, size_t index) const {
    Json tokens = Json::array();
    for (const TokenSpan& span : row.system_spans) {
      for (int64_t token = span.begin; token < span.end; ++token) {
        tokens.push_back(encoder_->tokenizer().decode({row.token_ids[static_cast<size_t>(token)]},
                                                      text::Tokenizer::SpecialTokens::kKeep));
      }
    }
    Json example = {{"id", row.rule.id},      {"rule", row.rule.rule},     {"system", row.rule.system},
                    {"user", row.rule.user},  {"answer", row.rule.answer}, {"tokens", std::move(tokens)},
                    {"blocks", Json::array()}};
    for (const auto& [layer, weights] : measures.weights) {
      example["blocks"].push_back({{"layer", layer},
                                   {"last_prompt_token", matrix_json(weights[index].last_prompt_token)},
                                   {"answer", matrix_json(weights[index].answer)}});
    }
    return example;
  }

  void add_switches(Json& report) {
    report["switches"] = nullptr;
    report["swap"] = nullptr;
    if (model_.blocks().empty() || options_.answers == 0) return;
    const AnswerOptions answer_options{.max_new_tokens = options_.max_new_tokens,
                                       .progress = [&](const std::string& text) { progress_.show(text); }};
    // The rows of a rule stand together in the file; an even draw reaches all of them.
    const size_t count = std::min(static_cast<size_t>(options_.answers), rows_.size());
    std::vector<AnalysisRow> answered;
    for (size_t i = 0; i < count; ++i) answered.push_back(rows_[i * rows_.size() / count]);
    Json settings = Json::array();
    for (const SwitchResult& result :
         measure_switches(model_, *encoder_, batches_, answered, answer_options)) {
      settings.push_back({{"name", result.setting.name},
                          {"layer", result.setting.layer ? Json(*result.setting.layer) : Json(nullptr)},
                          {"part", result.setting.part},
                          {"loss", data::estimate_to_json(result.loss)},
                          {"loss_change", data::estimate_to_json(result.loss_change)},
                          {"adherence", data::estimate_to_json(result.adherence)},
                          {"adherence_change", data::estimate_to_json(result.adherence_change)},
                          {"joint", data::estimate_to_json(result.joint)}});
    }
    report["switches"] = {
        {"answered_rows", count}, {"loss_rows", rows_.size()}, {"settings", std::move(settings)}};
    if (folder_->config.kind == weights::AdapterKind::kCal)
      report["swap"] = describe_swap(answered, answer_options);
  }

  Json describe_swap(std::span<const AnalysisRow> answered, const AnswerOptions& answer_options) {
    std::vector<AnalysisRow> with_span;
    for (const AnalysisRow& row : answered) {
      if (!row.system_spans.empty()) with_span.push_back(row);
    }
    if (label_rules(with_span).names.size() < 2) return nullptr;
    const SwapResult swap = measure_swap(model_, *encoder_, with_span, answer_options);
    return {{"rows", swap.rows},
            {"own",
             {{"before", data::estimate_to_json(swap.own_before)},
              {"after", data::estimate_to_json(swap.own_after)}}},
            {"donor",
             {{"before", data::estimate_to_json(swap.donor_before)},
              {"after", data::estimate_to_json(swap.donor_after)}}},
            {"turned_to_donor", data::estimate_to_json(data::wilson_share(swap.turned_to_donor, swap.rows))},
            {"examples", swap.examples}};
  }

  const AnalysisOptions& options_;
  std::shared_ptr<const weights::ModelSource> source_;
  std::optional<weights::AdapterFolder> folder_;
  std::unique_ptr<text::ChatEncoder> encoder_;
  std::vector<AnalysisRow> rows_;
  StudiedModel model_;
  std::vector<AnalysisBatch> batches_;
  ProgressLine progress_;
};

}  // namespace

Json run_analysis(const AnalysisOptions& options) {
  return model::translate_torch_errors("analysing the model", [&] { return Analysis(options).report(); });
}

}  // namespace calyrex::study
