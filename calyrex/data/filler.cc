#include "calyrex/data/filler.h"

#include <array>
#include <string_view>

#include "calyrex/data/question.h"

namespace calyrex::data {
namespace {

using Words = std::string_view;

constexpr auto kTimes = std::to_array<Words>(
    {"In the early morning", "After the long winter", "On market days", "Late in the afternoon",
     "Twice a year", "When the weather allowed it", "Most evenings", "During the harvest",
     "Before the first snow", "At the end of the week", "Every second spring", "In those years"});

constexpr auto kPeople = std::to_array<Words>(
    {"the ferryman", "an old carpenter", "the miller's family", "two travellers from the coast",
     "the keeper of the lighthouse", "a company of musicians", "the baker's apprentice", "several fishermen",
     "the teacher of the village", "a young surveyor", "the beekeeper", "the crew of the barge",
     "a retired clockmaker", "the gardeners of the abbey"});

constexpr auto kDeeds = std::to_array<Words>(
    {"carried baskets of onions", "repaired the nets", "painted the shutters",
     "measured the height of the river", "waited for the slow train", "planted a row of young elms",
     "counted the barrels in the cellar", "told stories about the quarry", "sharpened the old tools",
     "drew a map of the marshes", "stacked firewood against the wall", "cleaned the windows of the chapel",
     "mended a broken fence", "sorted the letters by street"});

constexpr auto kPlaces = std::to_array<Words>(
    {"near the wooden bridge", "behind the weaving mill", "along the northern road",
     "at the edge of the forest", "below the castle hill", "beside the canal", "in the narrow harbour",
     "on the far bank of the lake", "between the orchards", "in the square with the fountain",
     "outside the railway station", "under the stone arches"});

constexpr auto kRemarks = std::to_array<Words>(
    {"Nobody was in a hurry.", "The dogs slept in the shade.", "A cold wind came down from the mountains.",
     "It was said to bring good luck.", "The work took longer than anyone had expected.",
     "People still talk about it.", "By noon the fog had lifted.", "The price of flour had gone up again.",
     "Somebody always brought a fiddle.", "The road was dusty and straight.",
     "Nothing of it can be seen today.", "The bells could be heard across the valley."});

template <typename Pool>
Words pick(const Pool& pool, RandomStream& random) {
  return pool[random.below(pool.size())];
}

}  // namespace

std::string filler_text(int64_t tokens, RandomStream random) {
  constexpr uint64_t kSentencesOfParagraph = 6;
  const auto bytes = static_cast<size_t>(static_cast<double>(tokens) * kFillerBytesPerToken);
  std::string text;
  for (uint64_t sentence = 0; text.size() < bytes; ++sentence) {
    if (sentence > 0) text += sentence % kSentencesOfParagraph == 0 ? "\n" : " ";
    text += fill("{time} {people} {deed} {place}.", {{.name = "time", .value = pick(kTimes, random)},
                                                     {.name = "people", .value = pick(kPeople, random)},
                                                     {.name = "deed", .value = pick(kDeeds, random)},
                                                     {.name = "place", .value = pick(kPlaces, random)}});
    if (random.below(3) == 0) text += " " + std::string(pick(kRemarks, random));
  }
  return text;
}

}  // namespace calyrex::data
