// Words that questions are made of. Internal to data.
#pragma once

#include <array>
#include <string_view>

namespace calyrex::data {

inline constexpr auto kNames = std::to_array<std::string_view>(
    {"Anna",   "Ben",    "Carla", "David", "Emma",  "Frank", "Grace", "Henry", "Irene",
     "Jack",   "Kate",   "Leo",   "Maria", "Nina",  "Oscar", "Paul",  "Rosa",  "Sam",
     "Tina",   "Victor", "Wendy", "Adam",  "Bella", "Chris", "Diana", "Eric",  "Fiona",
     "George", "Helen",  "Ivan",  "Julia", "Kevin", "Laura", "Mark",  "Nora",  "Peter"});

inline constexpr auto kColors = std::to_array<std::string_view>(
    {"red", "blue", "green", "yellow", "white", "black", "brown", "pink", "purple", "gray"});

inline constexpr auto kObjects = std::to_array<std::string_view>(
    {"bicycle", "car",    "hat",   "coat",   "bag",   "book",  "cup",     "chair", "lamp",   "door",
     "ball",    "kite",   "boat",  "pen",    "scarf", "shirt", "blanket", "clock", "guitar", "table",
     "phone",   "basket", "watch", "jacket", "plate", "tent",  "box",     "desk",  "towel",  "ring"});

inline constexpr auto kPlaces = std::to_array<std::string_view>(
    {"kitchen", "garden",   "garage",  "attic",  "bedroom", "bathroom", "office",
     "library", "basement", "hallway", "barn",   "pantry",  "school",   "museum",
     "cellar",  "studio",   "closet",  "drawer", "shed",    "cabin"});

inline constexpr auto kCountables = std::to_array<std::string_view>(
    {"apples", "books",  "pens",    "stamps", "coins", "cats",   "dogs",   "tickets",
     "plants", "chairs", "shirts",  "eggs",   "balls", "keys",   "stones", "flowers",
     "horses", "cards",  "candles", "spoons", "boxes", "photos", "shells", "toys"});

inline constexpr auto kGoods = std::to_array<std::string_view>(
    {"bread",  "milk",    "cheese", "butter", "rice",     "apples",   "pears",  "plums",
     "tea",    "sugar",   "salt",   "honey",  "eggs",     "fish",     "grapes", "lemons",
     "onions", "carrots", "beans",  "soup",   "pasta",    "tomatoes", "coffee", "juice",
     "nuts",   "flour",   "corn",   "melons", "cherries", "potatoes"});

inline constexpr auto kAnimals = std::to_array<std::string_view>(
    {"lions",  "bears",   "zebras",  "monkeys",  "wolves",  "foxes", "goats",  "sheep",
     "cows",   "horses",  "ducks",   "geese",    "rabbits", "owls",  "snakes", "tigers",
     "camels", "turtles", "parrots", "penguins", "deer",    "pigs"});

inline constexpr auto kTools = std::to_array<std::string_view>(
    {"a hammer", "a saw", "a rope", "a ladder", "a brush", "a map", "a knife", "a torch", "a bucket",
     "a shovel", "a drill", "a tent", "a pan", "a camera", "a compass", "a blanket"});

inline constexpr auto kMeasured = std::to_array<std::string_view>(
    {"shelf",  "rope",   "fence",  "path",   "table",  "cable",   "bench", "board", "wall",  "pipe",
     "ribbon", "carpet", "ladder", "bridge", "tunnel", "curtain", "pole",  "stick", "track", "wire"});

struct Pair {
  std::string_view key;
  std::string_view value;
};

inline constexpr auto kCapitals = std::to_array<Pair>(
    {{"France", "Paris"},     {"Germany", "Berlin"},   {"Italy", "Rome"},         {"Spain", "Madrid"},
     {"Japan", "Tokyo"},      {"China", "Beijing"},    {"Russia", "Moscow"},      {"Egypt", "Cairo"},
     {"Greece", "Athens"},    {"Portugal", "Lisbon"},  {"Austria", "Vienna"},     {"Poland", "Warsaw"},
     {"Sweden", "Stockholm"}, {"Norway", "Oslo"},      {"Denmark", "Copenhagen"}, {"Finland", "Helsinki"},
     {"Ireland", "Dublin"},   {"Hungary", "Budapest"}, {"Cuba", "Havana"},        {"Peru", "Lima"},
     {"Thailand", "Bangkok"}, {"Canada", "Ottawa"},    {"Kenya", "Nairobi"},      {"Belgium", "Brussels"},
     {"Turkey", "Ankara"},    {"Iran", "Tehran"},      {"Iraq", "Baghdad"},       {"Ukraine", "Kyiv"},
     {"England", "London"},   {"Chile", "Santiago"},   {"Scotland", "Edinburgh"}, {"Vietnam", "Hanoi"}});

inline constexpr auto kOpposites = std::to_array<Pair>(
    {{"hot", "cold"},   {"big", "small"},   {"up", "down"},     {"day", "night"},   {"open", "closed"},
     {"fast", "slow"},  {"happy", "sad"},   {"old", "young"},   {"rich", "poor"},   {"light", "dark"},
     {"early", "late"}, {"hard", "soft"},   {"wet", "dry"},     {"full", "empty"},  {"long", "short"},
     {"high", "low"},   {"left", "right"},  {"good", "bad"},    {"strong", "weak"}, {"clean", "dirty"},
     {"near", "far"},   {"first", "last"},  {"win", "lose"},    {"true", "false"},  {"inside", "outside"},
     {"push", "pull"},  {"black", "white"}, {"begin", "end"},   {"loud", "quiet"},  {"thick", "thin"},
     {"love", "hate"},  {"buy", "sell"},    {"north", "south"}, {"east", "west"},   {"summer", "winter"}});

inline constexpr auto kDefinitions =
    std::to_array<Pair>({{"a place where people borrow books", "library"},
                         {"a person who flies an airplane", "pilot"},
                         {"a person who teaches in a school", "teacher"},
                         {"the meal that people eat in the morning", "breakfast"},
                         {"a person who bakes bread", "baker"},
                         {"a place where sick people are treated", "hospital"},
                         {"a baby dog", "puppy"},
                         {"a baby cat", "kitten"},
                         {"the season after winter", "spring"},
                         {"the frozen form of water", "ice"},
                         {"an animal that gives us milk", "cow"},
                         {"the star at the center of our solar system", "sun"},
                         {"a person who grows crops", "farmer"},
                         {"a vehicle with two wheels and pedals", "bicycle"},
                         {"a person who puts out fires", "firefighter"},
                         {"the insect that makes honey", "bee"},
                         {"a building where films are shown", "cinema"},
                         {"a doctor for teeth", "dentist"},
                         {"the tool that shows the time", "clock"},
                         {"a shape with three sides", "triangle"}});

inline constexpr auto kDays = std::to_array<std::string_view>(
    {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"});

inline constexpr auto kMonths =
    std::to_array<std::string_view>({"January", "February", "March", "April", "May", "June", "July", "August",
                                     "September", "October", "November", "December"});

inline constexpr auto kMadeUpWords = std::to_array<std::string_view>(
    {"florn",  "brint",  "zubble", "tarka",  "plim",   "dosk",   "velt",    "grom",
     "nibber", "sorvel", "quind",  "mard",   "lopper", "hask",   "trindle", "wex",
     "fenzo",  "bolden", "crimo",  "yarrit", "jint",   "pasker", "drumlo",  "skell"});

inline constexpr auto kMeanings = std::to_array<std::string_view>(
    {"a late order",   "a broken cup",  "a small boat",  "a free ticket",  "a long walk",   "a rainy day",
     "a new customer", "a cold drink",  "a lost key",    "a red card",     "a quick lunch", "a wooden box",
     "a loud noise",   "a short break", "a blue stamp",  "a spare wheel",  "a night train", "a paper bag",
     "a silver coin",  "a warm coat",   "a letter home", "an open window", "a garden path", "an empty room"});

/// Subjects, verbs and ends of sentences to rewrite.
inline constexpr auto kCreatures = std::to_array<std::string_view>(
    {"dog", "cat", "horse", "bird", "fox", "duck", "rabbit", "cow", "mouse", "goat", "bear", "wolf"});
inline constexpr auto kActions = std::to_array<std::string_view>(
    {"sleeps", "sits", "waits", "plays", "eats", "hides", "stands", "rests", "jumps", "walks"});
inline constexpr auto kSpots = std::to_array<std::string_view>(
    {"on the sofa", "in the garden", "under the table", "near the river", "behind the house", "by the window",
     "on the roof", "in the barn", "beside the road", "in the snow", "under the tree", "at the door"});

}  // namespace calyrex::data
