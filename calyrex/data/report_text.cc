#include "calyrex/data/report_text.h"

#include <fmt/format.h>

#include "calyrex/base/error.h"

namespace calyrex::data {
namespace {

constexpr int kLabelWidth = 26;

std::string percent(double share) { return fmt::format("{:.0f} %", 100.0 * share); }

std::string sort_label(RowSort sort) {
  switch (sort) {
    case RowSort::kOverrule:
      return "User tries to overrule";
    case RowSort::kIdle:
      return "Rule does not apply";
    case RowSort::kOrdinary:
      return "Ordinary system message";
    case RowSort::kNoSystem:
      return "No system message";
    case RowSort::kRule:
      break;
  }
  return "Rule";
}

/// Columns of one system: joint with interval, rule part, content part.
std::string cells(const Measures& measures) {
  return fmt::format("{:>18}  {:>6} {:>8}", format_share(measures.joint), percent(measures.rule.value),
                     percent(measures.content.value));
}

std::string cell_heads() { return fmt::format("{:>18}  {:>6} {:>8}", "both [95 %]", "rule", "content"); }

/// Lines of one or two reports; the second may be null.
class Table {
 public:
  Table(const RuleReport& first, const RuleReport* second) : first_(first), second_(second) {
    CALYREX_CHECK(second == nullptr || second->rules.size() == first.rules.size());
  }

  std::string text() {
    heading("Rules in training");
    rules(/*trained=*/true);
    line("Mean over rules", first_.trained_mean, second_ != nullptr ? &second_->trained_mean : nullptr);
    if (!first_.rules.empty() && !first_.rules.back().trained) {
      heading("Rules never trained");
      rules(/*trained=*/false);
      line("Mean over rules", first_.untrained_mean, second_ != nullptr ? &second_->untrained_mean : nullptr);
    }
    if (!first_.sorts.empty()) heading("Other rows");
    for (size_t i = 0; i < first_.sorts.size(); ++i) {
      line(sort_label(first_.sorts[i].sort), first_.sorts[i].measures,
           second_ != nullptr ? &second_->sorts[i].measures : nullptr);
    }
    return text_;
  }

 private:
  void heading(const std::string& title) {
    text_ += fmt::format("{}{:<{}}{}", text_.empty() ? "" : "\n", title, kLabelWidth, cell_heads());
    if (second_ != nullptr) text_ += "   " + cell_heads();
    text_ += '\n';
  }

  void rules(bool trained) {
    for (size_t i = 0; i < first_.rules.size(); ++i) {
      if (first_.rules[i].trained != trained) continue;
      line(first_.rules[i].label, first_.rules[i].measures,
           second_ != nullptr ? &second_->rules[i].measures : nullptr);
    }
  }

  void line(const std::string& label, const Measures& first, const Measures* second) {
    text_ += fmt::format("{:<{}}{}", label, kLabelWidth, cells(first));
    if (second != nullptr) text_ += "   " + cells(*second);
    text_ += '\n';
  }

  const RuleReport& first_;
  const RuleReport* second_;
  std::string text_;
};

}  // namespace

std::string format_share(const Estimate& estimate) {
  return fmt::format("{:.0f} % [{:.0f}, {:.0f}]", 100.0 * estimate.value, 100.0 * estimate.low,
                     100.0 * estimate.high);
}

std::string format_report(const RuleReport& report) { return Table(report, nullptr).text(); }

std::string format_comparison(const RuleReport& base, const RuleReport& adapter, const Estimate& difference) {
  const int width = static_cast<int>(cells({}).size());
  std::string text = fmt::format("{:<{}}{:^{}}   {:^{}}\n", "", kLabelWidth, "base", width, "adapter", width);
  text += Table(base, &adapter).text();
  text += fmt::format("\nAdapter minus base, mean over trained rules: {:+.0f} points [{:+.0f}, {:+.0f}]\n",
                      100.0 * difference.value, 100.0 * difference.low, 100.0 * difference.high);
  return text;
}

}  // namespace calyrex::data
