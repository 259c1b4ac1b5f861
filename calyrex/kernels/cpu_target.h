// Which instruction set the kernels run on: the best one of this machine, or the one that the user forces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace calyrex::kernels {

/// Environment variable that forces a target: "scalar", "avx2" or "avx512".
inline constexpr const char* kCpuTargetVariable = "CALYREX_CPU_TARGET";

/// Name of the target in use. The first call (also the first call of any kernel) reads the environment
/// variable. kInvalidArgument for an unknown name, kUnsupported for a target that this machine or build
/// lacks.
std::string_view cpu_target();

/// Targets that this build holds and this machine runs, the best first.
std::vector<std::string> supported_cpu_targets();

/// Forces a target from here on, "" = the best one; for tests and measurements, not while kernels run.
/// Errors as cpu_target().
void set_cpu_target(std::string_view name);

}  // namespace calyrex::kernels
