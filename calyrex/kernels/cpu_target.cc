#include "calyrex/kernels/cpu_target.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/ranges.h>
#include <hwy/highway.h>

#include "calyrex/base/error.h"

namespace calyrex::kernels {
namespace {

struct NamedTarget {
  std::string_view name;
  int64_t bits;
};

// The best first; "native" stands for what Highway picks on other architectures.
constexpr int64_t kX86Targets = HWY_AVX3 | HWY_AVX2;
constexpr std::array<NamedTarget, 4> kTargets = {{
    {"avx512", HWY_AVX3},
    {"avx2", HWY_AVX2},
    {"native", HWY_TARGETS & ~(kX86Targets | HWY_STATIC_TARGET | HWY_SCALAR | HWY_EMU128)},
    {"scalar", HWY_ARCH_X86 ? HWY_STATIC_TARGET : (HWY_SCALAR | HWY_EMU128)},
}};

int64_t available_bits() {
  static const int64_t bits = [] {
    hwy::SetSupportedTargetsForTest(0);
    return hwy::SupportedTargets() & HWY_TARGETS;
  }();
  return bits;
}

void select_bits(int64_t bits) {
  hwy::SetSupportedTargetsForTest(bits);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

std::string_view& current_name() {
  static std::string_view name;
  return name;
}

void apply(std::string_view name) {
  const std::vector<std::string> supported = supported_cpu_targets();
  if (name.empty()) name = supported.front();
  const auto* target = std::ranges::find(kTargets, name, &NamedTarget::name);
  if (target == kTargets.end()) {
    fail(ErrorCode::kInvalidArgument, "unknown CPU target \"{}\": take one of {}", name,
         fmt::join(supported, ", "));
  }
  if ((target->bits & available_bits()) == 0) {
    fail(ErrorCode::kUnsupported,
         "this machine or build does not support the CPU target \"{}\": take one of {}", name,
         fmt::join(supported, ", "));
  }
  select_bits(target->bits & available_bits());
  current_name() = target->name;
}

bool apply_environment() {
  const char* forced = std::getenv(kCpuTargetVariable);
  with_context(kCpuTargetVariable, [&] { apply(forced == nullptr ? "" : forced); });
  return true;
}

}  // namespace

std::string_view cpu_target() {
  [[maybe_unused]] static const bool applied = apply_environment();
  return current_name();
}

std::vector<std::string> supported_cpu_targets() {
  std::vector<std::string> names;
  for (const NamedTarget& target : kTargets) {
    if ((target.bits & available_bits()) != 0) names.emplace_back(target.name);
  }
  return names;
}

void set_cpu_target(std::string_view name) {
  static_cast<void>(
      cpu_target());  // the environment is read first, so that it cannot override this choice later
  apply(name);
}

}  // namespace calyrex::kernels
