// The contract that every kind of adapter keeps: identity at the start, only its own tensors move, off is the
// base, strength, two of them in one batch, exact accumulation, nothing lost by saving, loading and
// continuing.
#include <algorithm>
#include <deque>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "calyrex/base/file.h"
#include "calyrex/base/sha256.h"
#include "calyrex/infer/model_executor.h"
#include "calyrex/model/full.h"
#include "calyrex/train/run.h"
#include "calyrex/train/trainer.h"
#include "tests/model/tiny_models.h"
#include "tests/tolerances.h"
#include "tests/train/training_runs.h"
#include "tests/weights/test_files.h"

namespace calyrex::train {
namespace {

using model::AdapterParameter;
using model::TinyModel;

struct Kind {
  std::string name;
  std::vector<std::string> settings;  // adapter settings
  std::vector<std::string> outputs;   // endings of the tensors that a first step reaches; empty = all
  std::string no_strength = {};       // why there is no strength, and no second one in a batch
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

const TinyModel& tiny() {
  static const TinyModel model = TinyModel::open("llama");
  return model;
}

/// The golden batch as training rows; `is_target` gives the labels.
std::vector<TrainingRow> golden_rows() {
  std::vector<TrainingRow> rows;
  const std::vector<int64_t> is_target = tiny().golden().integers("is_target");
  size_t first = 0;
  for (const model::SequenceInput& sequence : tiny().sequences) {
    TrainingRow row{.id = "row",
                    .token_ids = sequence.token_ids,
                    .system_spans = sequence.system_spans,
                    .label_spans = {}};
    for (int64_t token = 1; token < row.num_tokens(); ++token) {
      if (is_target[first + static_cast<size_t>(token)] != 0) row.label_spans.push_back({token, token + 1});
    }
    first += sequence.token_ids.size();
    rows.push_back(std::move(row));
  }
  return rows;
}

RowPointers pointers_to(const std::vector<TrainingRow>& rows) {
  RowPointers pointers;
  for (const TrainingRow& row : rows) pointers.push_back(&row);
  return pointers;
}

bool never_stop() { return false; }

TrainSettings settings_for(int64_t micro_batch_tokens) {
  TrainSettings settings;
  settings.learning_rate = 1e-2;
  settings.micro_batch_tokens = micro_batch_tokens;
  return settings;
}

std::string backbone_bytes() {
  Sha256 digest;
  const at::NoGradGuard no_grad;
  const at::Tensor head = tiny().decoder->head().plain();
  digest.update(std::span(static_cast<const std::byte*>(head.const_data_ptr()), head.nbytes()));
  for (const at::Tensor& hidden : tiny().run(nullptr).hidden) {
    const at::Tensor whole = hidden.contiguous();
    digest.update(std::span(static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes()));
  }
  return digest.hex_digest();
}

/// What a trainer works on.
struct Subject {
  std::shared_ptr<const model::Decoder> decoder;
  std::shared_ptr<model::Adapter> adapter;
};

class AdapterContract : public testing::TestWithParam<Kind> {
 protected:
  Subject make(uint64_t seed = 1) const {
    const AdapterSettings settings = parse_adapter_settings(GetParam().settings);
    const weights::AdapterConfig config = make_adapter_config(settings, *tiny().source);
    if (config.kind == weights::AdapterKind::kFull) {
      const auto [decoder, weights] =
          model::load_trainable_backbone(config, *tiny().source, nullptr, at::kFloat, at::kCPU);
      return {.decoder = decoder, .adapter = weights};
    }
    const model::InitOptions init{.method = settings.init == WeightInit::kCopyBackbone
                                                ? model::InitMethod::kCopyBackbone
                                                : model::InitMethod::kNormal,
                                  .std = 0.2,
                                  .seed = seed};
    return {.decoder = tiny().decoder,
            .adapter = model::create_adapter(config, *tiny().source, init, at::kFloat, at::kCPU,
                                             model::AdapterUse::kTrain)};
  }

  /// Two steps away from the start, so that every tensor counts.
  Subject make_trained(uint64_t seed) const {
    Subject subject = make(seed);
    Trainer trainer(subject.decoder, subject.adapter, settings_for(1000));
    const std::vector<TrainingRow> rows = golden_rows();
    for (const int step : {1, 2})
      trainer.update(*trainer.accumulate(pointers_to(rows), step, never_stop), 1.0);
    return subject;
  }

  static void save(const model::Adapter& adapter, const std::filesystem::path& folder) {
    const auto tensors = model::export_tensors(adapter, weights::DType::kF32);
    weights::write_adapter(folder, adapter.config(), tensors.tensors, {});
  }

  static weights::AdapterFolder open(const std::filesystem::path& folder) {
    return weights::open_adapter(folder, *tiny().source, weights::BaseMismatch::kReject);
  }
};

at::Tensor logits_of(const Subject& subject, double scale = 1.0) {
  TinyModel model = tiny();
  model.decoder = subject.decoder;
  return model.run(subject.adapter.get(), scale).logits;
}

TEST_P(AdapterContract, ANewAdapterIsTheBaseBitForBit) {
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(logits_of(make()), tiny().run(nullptr).logits));
}

TEST_P(AdapterContract, OffIsTheBaseBitForBitAndStrengthMatters) {
  const at::NoGradGuard no_grad;
  const at::Tensor base = tiny().run(nullptr).logits;
  const Subject subject = [&] {
    const at::AutoGradMode grad(true);
    return make_trained(1);
  }();
  const at::Tensor whole = logits_of(subject);
  EXPECT_FALSE(at::equal(whole, base));
  if (!GetParam().no_strength.empty()) return;
  EXPECT_TRUE(at::equal(logits_of(subject, 0.0), base));
  const at::Tensor half = logits_of(subject, 0.5);
  EXPECT_FALSE(at::equal(half, base));
  EXPECT_LT((half - base).norm().item<double>(), (whole - base).norm().item<double>());
}

/// Logits after the last token of each sequence, computed by the engine's part in one batch.
std::vector<at::Tensor> last_logits(infer::ModelExecutor& executor,
                                    const std::deque<infer::Sequence>& sequences) {
  std::vector<infer::StepItem> items;
  for (const infer::Sequence& sequence : sequences) {
    items.push_back({.sequence = &sequence, .begin = 0, .count = sequence.length()});
  }
  std::vector<at::Tensor> rows;
  for (const infer::LogitsRow& row : executor.step(items)) {
    rows.push_back(at::tensor(at::ArrayRef<float>(row.logits.data(), row.logits.size())));
  }
  return rows;
}

TEST_P(AdapterContract, TwoInOneBatchWithTheBaseEqualSeparateRuns) {
  if (!GetParam().no_strength.empty()) GTEST_SUCCEED() << GetParam().no_strength;
  const test::TempFolder folder;
  const std::vector<Subject> subjects =
      GetParam().no_strength.empty() ? std::vector{make_trained(1), make_trained(2)} : std::vector<Subject>{};
  lm::LocalModelOptions options;
  options.dtype = lm::Precision::kFloat32;
  options.device = "cpu";
  options.cache_gib = 0.01;
  infer::ModelExecutor executor(tiny().source, options);
  infer::PagePool pool(executor.num_pages());
  std::deque<infer::Sequence> sequences;
  std::vector<at::Tensor> expected;
  const at::NoGradGuard no_grad;
  const auto add = [&](const Subject* subject, const std::filesystem::path& path) {
    infer::Sequence& sequence = sequences.emplace_back();
    sequence.id = sequences.size();
    sequence.token_ids = tiny().sequences.back().token_ids;
    sequence.system_spans = tiny().sequences.back().system_spans;
    if (subject != nullptr) sequence.adapter = executor.load_adapter(open(path));
    const int64_t pages = (sequence.length() + executor.page_size() - 1) / executor.page_size();
    ASSERT_TRUE(pool.allocate(pages, sequence.pages));
    expected.push_back((subject == nullptr ? tiny().run(nullptr).logits : logits_of(*subject))[-1]);
  };
  add(nullptr, {});
  for (size_t n = 0; n < subjects.size(); ++n) {
    const std::filesystem::path path = folder / std::to_string(n);
    save(*subjects[n].adapter, path);
    add(&subjects[n], path);
  }
  const std::vector<at::Tensor> rows = last_logits(executor, sequences);
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t n = 0; n < rows.size(); ++n) {
    const double largest = expected[n].abs().max().item<double>();
    EXPECT_LE((rows[n] - expected[n]).abs().max().item<double>(), tolerance::kFloat32Network * largest) << n;
    if (n > 0) {
      EXPECT_FALSE(at::allclose(rows[n], rows[0], 1e-5, 1e-5)) << n;
    }
  }
}

TEST_P(AdapterContract, TheFirstStepReachesTheOutputsAlone) {
  const auto [decoder, adapter] = make();
  Trainer trainer(decoder, adapter, settings_for(1000));
  const std::vector<TrainingRow> rows = golden_rows();
  for (const int step : {1, 2}) {
    const auto result = trainer.accumulate(pointers_to(rows), step, never_stop);
    for (const AdapterParameter& parameter : adapter->parameters()) {
      const std::vector<std::string>& endings = GetParam().outputs;
      const bool output = endings.empty() ||
                          std::any_of(endings.begin(), endings.end(),
                                      [&](const auto& ending) { return parameter.name.ends_with(ending); });
      const bool moves = parameter.grad().defined() && parameter.grad().abs().max().item<double>() > 0.0;
      EXPECT_EQ(moves, step == 2 || output) << parameter.name << " in step " << step;
    }
    trainer.update(*result, 1.0);
  }
}

TEST_P(AdapterContract, TrainingLowersTheLossAndLeavesTheLoadedBackboneAlone) {
  const std::string before = backbone_bytes();
  const auto [decoder, adapter] = make();
  Trainer trainer(decoder, adapter, settings_for(1000));
  const std::vector<TrainingRow> rows = golden_rows();
  const double start = trainer.evaluate(pointers_to(rows), never_stop).value();
  EXPECT_NEAR(start, tiny().golden().floats("loss").item<double>(), 1e-4 * start);
  for (int step = 1; step <= 10; ++step) {
    trainer.update(*trainer.accumulate(pointers_to(rows), step, never_stop), 1.0);
  }
  EXPECT_LT(trainer.evaluate(pointers_to(rows), never_stop).value(), 0.98 * start);
  EXPECT_EQ(backbone_bytes(), before);
}

TEST_P(AdapterContract, MicroBatchesAccumulateTheSameGradient) {
  const std::vector<TrainingRow> rows = golden_rows();
  std::vector<at::Tensor> whole;
  double loss = 0.0;
  for (const int64_t micro_batch : {1000, 35, 1}) {
    const auto [decoder, adapter] = make();
    Trainer trainer(decoder, adapter, settings_for(micro_batch));
    trainer.update(*trainer.accumulate(pointers_to(rows), 1, never_stop), 1.0);
    const auto result = trainer.accumulate(pointers_to(rows), 2, never_stop);
    for (size_t i = 0; i < adapter->parameters().size(); ++i) {
      const at::Tensor grad = adapter->parameters()[i].grad();
      if (micro_batch == 1000) {
        whole.push_back(grad.clone());
        loss = result->loss;
      } else {
        const double scale = whole[i].abs().max().item<double>();
        EXPECT_LE((grad - whole[i]).abs().max().item<double>(), 1e-3 * scale)
            << adapter->parameters()[i].name;
      }
    }
    EXPECT_NEAR(result->loss, loss, 1e-5 * loss);
    EXPECT_EQ(result->tokens, 63);
  }
}

TEST_P(AdapterContract, SavedAndLoadedItTrainsOnAlike) {
  const test::TempFolder folder;
  const Subject subject = make_trained(1);
  save(*subject.adapter, folder / "adapter");
  const weights::AdapterFolder saved = open(folder / "adapter");
  Subject loaded{.decoder = tiny().decoder, .adapter = nullptr};
  if (saved.config.kind == weights::AdapterKind::kFull) {
    const auto [decoder, weights] =
        model::load_trainable_backbone(saved.config, *tiny().source, &saved, at::kFloat, at::kCPU);
    loaded = {.decoder = decoder, .adapter = weights};
  } else {
    loaded.adapter =
        model::load_adapter(saved, tiny().decoder->config(), at::kFloat, at::kCPU, model::AdapterUse::kTrain);
  }
  const std::vector<TrainingRow> rows = golden_rows();
  Trainer trainer(subject.decoder, subject.adapter, settings_for(1000));
  Trainer again(loaded.decoder, loaded.adapter, settings_for(1000));
  const auto expected = trainer.accumulate(pointers_to(rows), 3, never_stop);
  const auto result = again.accumulate(pointers_to(rows), 3, never_stop);
  EXPECT_EQ(result->loss, expected->loss);
  EXPECT_EQ(result->norms.total, expected->norms.total);
}

TEST_P(AdapterContract, ARunContinuedFromItsCheckpointIsTheSameBits) {
  namespace fs = std::filesystem;
  const test::TempFolder whole, parts;
  std::vector<std::string> settings = {"train.max_steps=6", "train.checkpoint_every=2",
                                       "train.keep_checkpoints=9"};
  for (const std::string& setting : GetParam().settings) settings.push_back("adapter." + setting);
  run_training({.config_path = write_tiny_config(whole.path(), settings)});
  const auto config = write_tiny_config(parts.path(), settings);
  run_training({.config_path = config});
  // As if the process had died after step 4.
  Json record = read_json_file(parts / "run/training.json");
  record["status"] = "running";
  write_file_atomically(parts / "run/training.json", to_json_text(record));
  fs::remove_all(parts / "run/checkpoints/step-00000006");
  const bool full = fs::exists(parts / "run/model.safetensors");
  const std::string file = full ? "run/model.safetensors" : "run/adapter_model.safetensors";
  fs::remove(parts / file);
  run_training({.config_path = config});
  EXPECT_EQ(file_bytes(whole / file), file_bytes(parts / file));
  EXPECT_EQ(timeless(read_metrics(whole / "run")), timeless(read_metrics(parts / "run")));
}

TEST_P(AdapterContract, AStopLeavesNoTrace) {
  const auto [decoder, adapter] = make();
  Trainer trainer(decoder, adapter, settings_for(1));
  const std::vector<TrainingRow> rows = golden_rows();
  int asked = 0;
  EXPECT_FALSE(trainer.accumulate(pointers_to(rows), 1, [&] { return ++asked > 2; }).has_value());
  for (const AdapterParameter& parameter : adapter->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

const std::vector<std::string> kBlockOutputs = {"o_proj.weight", "down_proj.weight"};
const std::vector<std::string> kLowRankOutputs = {"lora_B.weight"};

INSTANTIATE_TEST_SUITE_P(
    Kinds, AdapterContract,
    testing::Values(
        Kind{"cal", {"placement=[1, 2]"}, kBlockOutputs},
        Kind{"cal_first_layer", {"placement=[0]"}, kBlockOutputs},
        Kind{"cal_copy", {"placement=[0, 2]", "init=copy_backbone"}, kBlockOutputs},
        Kind{"cal_rope_anchored",
             {"placement=[1]", "cal.position=rope", "cal.mlp_scope=anchored", "cal.self_inclusion=exclusive"},
             kBlockOutputs},
        Kind{"cal_attention_only", {"placement=[2]", "cal.intermediate_size=0"}, kBlockOutputs},
        Kind{"parallel_mlp", {"kind=parallel_mlp", "placement=[1, 2]"}, kBlockOutputs},
        Kind{"parallel_mlp_parallel",
             {"kind=parallel_mlp", "placement=[0, 2]", "parallel_mlp.input=parallel"},
             kBlockOutputs},
        Kind{"lora", {"kind=lora", "lora.rank=4"}, kLowRankOutputs},
        Kind{"lora_some",
             {"kind=lora", "lora.rank=3", "lora.alpha=12", "lora.use_rslora=true",
              "lora.target_modules=[k_proj, v_proj, up_proj]"},
             kLowRankOutputs},
        Kind{"lora_matched", {"kind=lora", "match_params={kind: cal, placement: [2]}"}, kLowRankOutputs},
        Kind{
            "full", {"kind=full"}, {}, "the trained weights are the backbone; there is no base beside them"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace calyrex::train
