#include "calyrex/study/analysis_switches.h"

#include <algorithm>
#include <memory>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "calyrex/data/checker.h"
#include "calyrex/data/grader.h"
#include "calyrex/study/analysis_generate.h"

namespace calyrex::study {
namespace {

constexpr uint64_t kBootstrapSeed = 0;
/// Rows of logits computed at a time.
constexpr int64_t kLogitRows = 256;
constexpr size_t kSwapExamples = 8;

/// Negative log-likelihood of a target a row.
std::vector<double> token_losses(const model::Decoder& decoder, const at::Tensor& hidden,
                                 const std::vector<int64_t>& targets) {
  std::vector<double> losses;
  const at::Tensor normed = decoder.final_norm(hidden), wanted = index_tensor(targets, hidden.device());
  for (int64_t begin = 0; begin < hidden.size(0); begin += kLogitRows) {
    const int64_t count = std::min(kLogitRows, hidden.size(0) - begin);
    const at::Tensor shares = at::log_softmax(decoder.logits(normed.narrow(0, begin, count)), 1);
    const at::Tensor picked = shares.gather(1, wanted.narrow(0, begin, count).unsqueeze(1))
                                  .squeeze(1)
                                  .cpu()
                                  .to(at::kDouble)
                                  .contiguous();
    for (int64_t i = 0; i < count; ++i) losses.push_back(-picked.const_data_ptr<double>()[i]);
  }
  return losses;
}

data::Estimate ratio(const std::vector<double>& sums, const std::vector<double>& weights) {
  std::vector<data::Cluster> clusters;
  for (size_t i = 0; i < sums.size(); ++i) clusters.push_back({.sum = sums[i], .weight = weights[i]});
  return data::bootstrap_ratio(clusters, kBootstrapSeed);
}

data::Estimate share(const std::vector<double>& kept) {
  return data::wilson_share(std::count(kept.begin(), kept.end(), 1.0), static_cast<int64_t>(kept.size()));
}

std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> result;
  for (size_t i = 0; i < a.size(); ++i) result.push_back(a[i] - b[i]);
  return result;
}

std::vector<double> rules_kept(std::span<const AnalysisRow> rows, const std::vector<std::string>& answers) {
  std::vector<double> kept;
  for (size_t i = 0; i < rows.size(); ++i) {
    kept.push_back(data::keeps_rule(rows[i].rule.checker, answers[i]) ? 1.0 : 0.0);
  }
  return kept;
}

}  // namespace

std::vector<SwitchSetting> switch_settings(const StudiedModel& model) {
  using Part = BlockSwitch::Part;
  std::vector<SwitchSetting> settings = {{.name = "all on", .layer = {}, .part = "none", .off = {}},
                                         {.name = "all off", .layer = {}, .part = "block", .off = {}}};
  std::set<std::pair<int64_t, Part>> present;
  for (const model::AdapterParameter& parameter : model.adapter->parameters()) {
    present.emplace(parameter.layer, parameter.part);
  }
  settings[1].off = present;
  for (const int64_t layer : model.blocks()) {
    settings.push_back({.name = fmt::format("block {}", layer),
                        .layer = layer,
                        .part = "block",
                        .off = {{layer, Part::kAttention}, {layer, Part::kMlp}}});
    if (!present.contains({layer, Part::kAttention}) || !present.contains({layer, Part::kMlp})) continue;
    settings.push_back({.name = fmt::format("attention of block {}", layer),
                        .layer = layer,
                        .part = "attention",
                        .off = {{layer, Part::kAttention}}});
    settings.push_back({.name = fmt::format("mlp of block {}", layer),
                        .layer = layer,
                        .part = "mlp",
                        .off = {{layer, Part::kMlp}}});
  }
  return settings;
}

/// One batch up to what the first block reads.
struct LossMeter::Prefix {
  Prefix(const StudiedModel& model, const AnalysisBatch& analysed)
      : batch(analysed), forward(analysed.batch, model.adapter.get(), model.scale) {
    const int64_t first = model.adapter->first_layer();
    input =
        model.decoder->run_layers(model.decoder->embed(batch.batch.token_ids), 0, first, forward.context());
    output = model.decoder->run_layer(input.clone(), first, forward.context());
  }

  const AnalysisBatch& batch;
  mutable model::PlannedForward forward;
  at::Tensor input;   // of the layer that the first block follows
  at::Tensor output;  // of that layer
};

LossMeter::LossMeter(const StudiedModel& model, std::span<const AnalysisBatch> batches) : model_(model) {
  const at::NoGradGuard no_grad;
  for (const AnalysisBatch& batch : batches)
    prefixes_.push_back(std::make_shared<const Prefix>(model, batch));
}

RowLosses LossMeter::measure(model::BlockObserver* observer) const {
  const at::NoGradGuard no_grad;
  const model::Decoder& decoder = *model_.decoder;
  const int64_t first = model_.adapter->first_layer();
  RowLosses losses;
  for (const auto& prefix : prefixes_) {
    model::ForwardContext& context = prefix->forward.context();
    for (model::AdapterGroup& group : context.adapters) group.observer = observer;
    at::Tensor hidden = decoder.run_slots(first, prefix->input, prefix->output.clone(), context);
    hidden = decoder.run_layers(std::move(hidden), first + 1, decoder.config().num_layers, context);
    const AnalysisBatch& batch = prefix->batch;
    const std::vector<double> tokens = token_losses(
        decoder, hidden.index_select(0, index_tensor(batch.read, hidden.device())), batch.targets);
    const size_t offset = losses.sums.size();
    losses.sums.resize(offset + batch.rows.size());
    losses.tokens.resize(offset + batch.rows.size());
    for (size_t n = 0; n < tokens.size(); ++n) {
      losses.sums[offset + batch.owner[n]] += tokens[n];
      losses.tokens[offset + batch.owner[n]] += 1.0;
    }
  }
  return losses;
}

std::vector<std::string> answer_rows(const StudiedModel& model, const text::ChatEncoder& encoder,
                                     std::span<const AnalysisRow> rows, const AnswerOptions& options,
                                     model::BlockObserver* observer, const std::vector<size_t>* donors) {
  std::vector<std::string> answers;
  const auto input_of = [&](size_t i) {
    return model::SequenceInput{.token_ids = rows[i].prompt_ids(), .system_spans = rows[i].system_spans};
  };
  const auto batch_rows = static_cast<size_t>(options.batch_rows);
  for (size_t begin = 0; begin < rows.size(); begin += batch_rows) {
    const size_t end = std::min(begin + batch_rows, rows.size());
    std::vector<model::SequenceInput> prompts, others;
    for (size_t i = begin; i < end; ++i) {
      prompts.push_back(input_of(i));
      if (donors != nullptr) others.push_back(input_of((*donors)[i]));
    }
    GenerateOptions generate{
        .max_new_tokens = options.max_new_tokens, .stop_ids = encoder.stop_ids(), .observer = observer};
    SpanValues values;
    if (donors != nullptr) {
      values = compute_span_values(model, others);
      generate.donors = &values;
    }
    for (const std::vector<TokenId>& ids : generate_greedy(model, prompts, generate)) {
      answers.push_back(encoder.tokenizer().decode(ids, text::Tokenizer::SpecialTokens::kSkip));
    }
  }
  return answers;
}

std::vector<SwitchResult> measure_switches(const StudiedModel& model, const text::ChatEncoder& encoder,
                                           std::span<const AnalysisBatch> batches,
                                           std::span<const AnalysisRow> answered,
                                           const AnswerOptions& options) {
  const LossMeter meter(model, batches);
  std::vector<SwitchResult> results;
  RowLosses all_on;
  std::vector<double> kept_on;
  for (SwitchSetting& setting : switch_settings(model)) {
    if (options.progress) options.progress(fmt::format("switched off: {}", setting.name));
    BlockSwitch observer(setting.off);
    const RowLosses losses = meter.measure(&observer);
    const std::vector<std::string> answers = answer_rows(model, encoder, answered, options, &observer);
    const std::vector<double> kept = rules_kept(answered, answers);
    if (results.empty()) {
      all_on = losses;
      kept_on = kept;
    }
    std::vector<double> joint;
    for (size_t i = 0; i < answers.size(); ++i) {
      joint.push_back(data::grade_answer(answered[i].rule, answers[i]).joint() ? 1.0 : 0.0);
    }
    results.push_back(
        {.setting = std::move(setting),
         .loss = ratio(losses.sums, losses.tokens),
         .loss_change = ratio(difference(losses.sums, all_on.sums), losses.tokens),
         .adherence = share(kept),
         .adherence_change = data::bootstrap_group_mean({difference(kept, kept_on)}, kBootstrapSeed),
         .joint = share(joint)});
  }
  return results;
}

SwapResult measure_swap(const StudiedModel& model, const text::ChatEncoder& encoder,
                        std::span<const AnalysisRow> answered, const AnswerOptions& options) {
  const std::vector<size_t> donors = choose_donors(answered);
  if (options.progress) options.progress("answers with another row's span");
  const std::vector<std::string> before = answer_rows(model, encoder, answered, options, nullptr);
  const std::vector<std::string> after = answer_rows(model, encoder, answered, options, nullptr, &donors);
  const std::vector<double> own_before = rules_kept(answered, before),
                            own_after = rules_kept(answered, after);
  std::vector<double> donor_before, donor_after;
  SwapResult result{.rows = static_cast<int64_t>(answered.size()), .examples = Json::array()};
  for (size_t i = 0; i < answered.size(); ++i) {
    const data::RuleRow& donor = answered[donors[i]].rule;
    donor_before.push_back(data::keeps_rule(donor.checker, before[i]) ? 1.0 : 0.0);
    donor_after.push_back(data::keeps_rule(donor.checker, after[i]) ? 1.0 : 0.0);
    const bool turned =
        own_before[i] == 1.0 && donor_before[i] == 0.0 && own_after[i] == 0.0 && donor_after[i] == 1.0;
    result.turned_to_donor += turned ? 1 : 0;
    if (result.examples.size() >= kSwapExamples && !turned) continue;
    result.examples.push_back({{"id", answered[i].rule.id},
                               {"system", answered[i].rule.system},
                               {"user", answered[i].rule.user},
                               {"donor_system", donor.system},
                               {"before", before[i]},
                               {"after", after[i]},
                               {"own", {own_before[i] == 1.0, own_after[i] == 1.0}},
                               {"donor", {donor_before[i] == 1.0, donor_after[i] == 1.0}}});
  }
  result.own_before = share(own_before);
  result.own_after = share(own_after);
  result.donor_before = share(donor_before);
  result.donor_after = share(donor_after);
  return result;
}

}  // namespace calyrex::study
