#include "calyrex/cli/bench_measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <vector>

#include <sys/resource.h>

#include "calyrex/base/error.h"
#include "calyrex/base/random.h"

namespace calyrex::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// When the tokens of one request came. Filled by the model's thread, read after `finished`.
struct Arrival {
  std::vector<Clock::time_point> tokens;
  Clock::time_point end;
  std::promise<void> finished;
};

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

lm::GenerateRequest make_request(const GenerationLoad& load, int64_t vocab_size, RandomStream& random) {
  lm::GenerateRequest request;
  request.adapter = load.adapter;
  request.max_new_tokens = load.new_tokens;
  request.ignore_eos = true;
  for (int64_t n = 0; n < load.prompt_tokens; ++n) {
    request.prompt.token_ids.push_back(static_cast<TokenId>(random.below(static_cast<uint64_t>(vocab_size))));
  }
  return request;
}

lm::EventHandler record_into(Arrival& arrival) {
  return {.on_token = [&arrival](const lm::TokenEvent&) { arrival.tokens.push_back(Clock::now()); },
          .on_finish =
              [&arrival](const lm::FinishEvent& event) {
                arrival.end = Clock::now();
                if (event.error) {
                  arrival.finished.set_exception(event.error);
                } else {
                  arrival.finished.set_value();
                }
              }};
}

GenerationTimes summarize(const std::vector<Arrival>& arrivals, Clock::time_point start) {
  GenerationTimes times;
  Clock::time_point all_started = start;
  Clock::time_point first_end = Clock::time_point::max();
  for (const Arrival& arrival : arrivals) {
    times.completion_tokens += static_cast<int64_t>(arrival.tokens.size());
    times.seconds = std::max(times.seconds, seconds_between(start, arrival.end));
    first_end = std::min(first_end, arrival.end);
    if (!arrival.tokens.empty()) all_started = std::max(all_started, arrival.tokens.front());
  }
  times.prefill_seconds = seconds_between(start, all_started);
  if (first_end <= all_started) return times;
  times.decode_seconds = seconds_between(all_started, first_end);
  for (const Arrival& arrival : arrivals) {
    times.decode_tokens += std::ranges::count_if(
        arrival.tokens, [&](Clock::time_point t) { return t > all_started && t <= first_end; });
  }
  return times;
}

}  // namespace

GenerationTimes measure_generation(lm::LanguageModel& model, const GenerationLoad& load) {
  RandomStream random(load.seed, "bench");
  const int64_t vocab_size = model.info().vocab_size;
  std::vector<lm::GenerateRequest> requests;
  for (int64_t n = 0; n < load.requests; ++n) requests.push_back(make_request(load, vocab_size, random));

  std::vector<Arrival> arrivals(load.requests);
  std::vector<lm::RequestId> submitted;
  const Clock::time_point start = Clock::now();
  std::exception_ptr refused;
  try {
    for (int64_t n = 0; n < load.requests; ++n) {
      submitted.push_back(model.submit(std::move(requests[n]), record_into(arrivals[n])));
    }
  } catch (const Error&) {
    refused = std::current_exception();
    for (lm::RequestId id : submitted) model.cancel(id);
  }
  // The handlers point into `arrivals`, so every request is waited for before anything is thrown.
  std::vector<std::future<void>> ends;
  for (size_t n = 0; n < submitted.size(); ++n) {
    ends.push_back(arrivals[n].finished.get_future());
    ends.back().wait();
  }
  if (refused) std::rethrow_exception(refused);
  for (std::future<void>& end : ends) end.get();
  GenerationTimes times = summarize(arrivals, start);
  times.prompt_tokens = load.requests * load.prompt_tokens;
  return times;
}

Json summarize_rates(std::vector<double> rates) {
  CALYREX_CHECK(!rates.empty());
  const auto rounded = [](double rate) { return std::round(rate * 10.0) / 10.0; };
  Json runs = Json::array();
  for (double rate : rates) runs.push_back(rounded(rate));
  std::ranges::sort(rates);
  const size_t middle = rates.size() / 2;
  const double median = rates.size() % 2 == 1 ? rates[middle] : (rates[middle - 1] + rates[middle]) / 2.0;
  return {{"median", rounded(median)},
          {"low", rounded(rates.front())},
          {"high", rounded(rates.back())},
          {"runs", runs}};
}

double peak_memory_mib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  constexpr double kKibPerMib = 1024.0;
  return static_cast<double>(usage.ru_maxrss) / kKibPerMib;
}

}  // namespace calyrex::cli
