#include "calyrex/eval/ifeval/resources.h"

#include "calyrex/base/fetched.h"

namespace calyrex::ifeval {
namespace {

std::filesystem::path resource(std::string_view name) {
  const std::filesystem::path folder =
      find_fetched("eval", "CALYREX_EVAL_RESOURCES", "the folder of language resources");
  return folder / name;
}

}  // namespace

const PunktModel& english_punkt() {
  static const PunktModel model = PunktModel::read(resource("punkt-english.txt"));
  return model;
}

const LanguageProfiles& language_profiles() {
  static const LanguageProfiles profiles = LanguageProfiles::open(resource("language-profiles.bin"));
  return profiles;
}

}  // namespace calyrex::ifeval
