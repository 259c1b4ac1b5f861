#include "calyrex/eval/run/rehearsal.h"

#include <set>
#include <utility>

#include "calyrex/eval/run/ask.h"

namespace calyrex::eval {

std::vector<Reply> walk_blankly(const Sample& sample,
                                const std::function<void(const std::vector<Ask>&)>& asks) {
  constexpr int kMostSteps = 32;
  std::vector<Reply> replies;
  for (int step = 0; step < kMostSteps; ++step) {
    const std::vector<Ask> next = sample.next(replies);
    if (next.empty()) break;
    asks(next);
    for (const Ask& ask : next) {
      Reply reply;
      if (ask_kind(ask) == AskKind::kScore) reply.logprobs = {-1.0};
      replies.push_back(std::move(reply));
    }
  }
  return replies;
}

std::vector<std::string> rehearse(const LoadedTask& task) {
  std::vector<Graded> graded;
  for (const auto& sample : task.samples) {
    const std::vector<Reply> replies = walk_blankly(*sample, [](const std::vector<Ask>&) {});
    Verdict verdict = sample->grade(replies);
    if (!verdict.ungraded) graded.push_back({.sample = sample.get(), .verdict = std::move(verdict)});
  }
  const std::vector<std::string>& headline = task.task->info().headline;
  std::set<std::string> names(headline.begin(), headline.end());
  if (!graded.empty()) {
    for (const auto& [name, estimate] : task.task->metrics(graded)) names.insert(name);
  }
  return {names.begin(), names.end()};
}

}  // namespace calyrex::eval
