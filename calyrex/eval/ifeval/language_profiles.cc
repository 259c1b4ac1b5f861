#include "calyrex/eval/ifeval/language_profiles.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "calyrex/base/error.h"

namespace calyrex::ifeval {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is mapped as it is");

constexpr std::string_view kMagic = "CLXLANG1";
constexpr size_t kNameBytes = 8;
constexpr size_t kMaxLanguages = 1000;

/// Takes arrays off the front of the file.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  std::span<const T> take(size_t count) {
    if (bytes_.size() / sizeof(T) < count) fail(ErrorCode::kCorruptData, "the file is too short");
    const auto* data = reinterpret_cast<const T*>(bytes_.data());
    bytes_ = bytes_.subspan(count * sizeof(T));
    return {data, count};
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

uint64_t gram_key(TextView gram) {
  uint64_t key = 0;
  for (const char32_t c : gram) key = key << 21 | c;
  return key;
}

}  // namespace

LanguageProfiles LanguageProfiles::open(const std::filesystem::path& path) {
  if (!path_exists(path)) fail(ErrorCode::kNotFound, "{} is not there; ./run build makes it", path.string());
  LanguageProfiles profiles(MappedFile::open(path));
  with_context(path.string(), [&] { profiles.parse(); });
  return profiles;
}

void LanguageProfiles::parse() {
  const auto require = [](bool condition, std::string_view what) {
    if (!condition) fail(ErrorCode::kCorruptData, "{}", what);
  };
  Reader reader(file_.bytes());
  const auto magic = reader.take<char>(kMagic.size());
  require(std::equal(magic.begin(), magic.end(), kMagic.begin()), "no file of language profiles");
  const auto sizes = reader.take<uint32_t>(4);
  require(sizes[0] > 0 && sizes[0] <= kMaxLanguages, "bad number of languages");
  keys_ = reader.take<uint64_t>(sizes[1]);
  starts_ = reader.take<uint32_t>(size_t{sizes[1]} + 1);
  counts_ = reader.take<GramCount>(sizes[2]);
  representatives_ = reader.take<Representative>(sizes[3]);
  totals_ = reader.take<uint32_t>(size_t{3} * sizes[0]);
  const auto names = reader.take<char>(sizes[0] * kNameBytes);
  require(reader.empty(), "the file is too long");

  require(std::is_sorted(keys_.begin(), keys_.end()), "grams out of order");
  require(std::is_sorted(starts_.begin(), starts_.end()) && starts_.back() == counts_.size(), "bad counts");
  for (const GramCount& count : counts_) require(count.language < sizes[0], "a count of no language");
  require(std::find(totals_.begin(), totals_.end(), 0u) == totals_.end(), "a total of zero");
  require(std::is_sorted(representatives_.begin(), representatives_.end(),
                         [](const auto& a, const auto& b) { return a.from < b.from; }),
          "characters out of order");
  for (size_t i = 0; i < sizes[0]; ++i) {
    const char* name = names.data() + i * kNameBytes;
    languages_.emplace_back(name, ::strnlen(name, kNameBytes));
  }
}

std::span<const GramCount> LanguageProfiles::counts(TextView gram) const {
  const uint64_t key = gram_key(gram);
  const auto found = std::lower_bound(keys_.begin(), keys_.end(), key);
  if (found == keys_.end() || *found != key) return {};
  const auto index = static_cast<size_t>(found - keys_.begin());
  return counts_.subspan(starts_[index], starts_[index + 1] - starts_[index]);
}

char32_t LanguageProfiles::representative(char32_t c) const {
  const auto found =
      std::lower_bound(representatives_.begin(), representatives_.end(), c,
                       [](const Representative& entry, char32_t key) { return entry.from < key; });
  return found != representatives_.end() && found->from == c ? found->to : c;
}

}  // namespace calyrex::ifeval
