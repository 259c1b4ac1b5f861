#include "calyrex/eval/scorers/call_match.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/data/unicode.h"
#include "calyrex/eval/scorers/json_value.h"

namespace calyrex::eval {
namespace {

enum class Kind { kNull, kBoolean, kInteger, kFloat, kString, kArray, kObject };

struct TypeName {
  std::string_view name;
  Kind kind;
};
/// JSON Schema's words beside BFCL's own. "any" values are written as text there.
constexpr std::array<TypeName, 11> kTypes = {{{"dict", Kind::kObject},
                                              {"object", Kind::kObject},
                                              {"array", Kind::kArray},
                                              {"tuple", Kind::kArray},
                                              {"string", Kind::kString},
                                              {"any", Kind::kString},
                                              {"integer", Kind::kInteger},
                                              {"float", Kind::kFloat},
                                              {"number", Kind::kFloat},
                                              {"boolean", Kind::kBoolean},
                                              {"bool", Kind::kBoolean}}};

const TypeName* find_type(std::string_view name) {
  for (const TypeName& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

Kind kind_of(const Json& value) {
  if (value.is_object()) return Kind::kObject;
  if (value.is_array()) return Kind::kArray;
  if (value.is_string()) return Kind::kString;
  if (value.is_boolean()) return Kind::kBoolean;
  if (value.is_number_integer()) return Kind::kInteger;
  return value.is_number() ? Kind::kFloat : Kind::kNull;
}

bool is_absent_mark(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().empty();
}

bool may_be_absent(const Json& allowed) {
  return std::any_of(allowed.begin(), allowed.end(), is_absent_mark);
}

/// The type that the allowed values have, told by the first of them.
const Json* first_value(const Json& allowed) {
  for (const Json& value : allowed) {
    if (!is_absent_mark(value)) return &value;
  }
  return nullptr;
}

std::string plain_text(const std::string& text) {
  std::string result = text;
  std::erase_if(result,
                [](char c) { return std::string_view(" ,./-_*^").find(c) != std::string_view::npos; });
  std::replace(result.begin(), result.end(), '\'', '"');
  return data::to_lower(result);
}

bool any_matches(const Json& value, const Json& allowed);

/// Every value from its own allowed list, and none missing that must be there.
bool object_matches(const Json& value, const Json& allowed) {
  for (const auto& entry : value.items()) {
    const auto found = allowed.find(entry.key());
    if (found == allowed.end() || !any_matches(entry.value(), *found)) return false;
  }
  return std::all_of(allowed.items().begin(), allowed.items().end(), [&](const auto& entry) {
    return value.contains(entry.key()) || may_be_absent(entry.value());
  });
}

/// One value against one allowed value.
bool value_matches(const Json& value, const Json& allowed) {
  if (value.is_string() && allowed.is_string()) {
    return plain_text(value.get_ref<const std::string&>()) ==
           plain_text(allowed.get_ref<const std::string&>());
  }
  if (value.is_object() && allowed.is_object()) return object_matches(value, allowed);
  if (value.is_array() && allowed.is_array()) {
    return std::equal(value.begin(), value.end(), allowed.begin(), allowed.end(), value_matches);
  }
  return value == allowed;
}

/// `allowed` within an object may be a single value instead of a list of them.
bool any_matches(const Json& value, const Json& allowed) {
  if (!allowed.is_array()) return value_matches(value, allowed);
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const Json& choice) { return value_matches(value, choice); });
}

bool has_kind(const Json& value, Kind kind) {
  return kind_of(value) == kind || (kind == Kind::kFloat && kind_of(value) == Kind::kInteger);
}

/// Items of a list have the declared type, or that of the items of an allowed list.
bool items_fit(const Json& list, const Json& property, const Json& allowed) {
  const auto items = property.find("items");
  if (items == property.end() || !items->is_object() || !items->contains("type")) return true;
  const auto& name = items->at("type").get_ref<const std::string&>();
  const Kind kind = find_type(name)->kind;
  return std::any_of(allowed.begin(), allowed.end(), [&](const Json& choice) {
    if (!choice.is_array()) return !is_absent_mark(choice);
    return std::all_of(list.begin(), list.end(), [&](const Json& item) {
      return has_kind(item, kind) || (!choice.empty() && kind_of(item) == kind_of(choice.front()));
    });
  });
}

bool type_fits(const Json& value, const Json& property, const Json& allowed) {
  const Kind kind = find_type(property.at("type").get_ref<const std::string&>())->kind;
  if (has_kind(value, kind)) return kind != Kind::kArray || items_fit(value, property, allowed);
  const Json* first = first_value(allowed);
  return first != nullptr && kind_of(value) == kind_of(*first);
}

/// Pairs each expected call with a call of its own (augmenting paths; Kuhn 1955).
class Pairing {
 public:
  explicit Pairing(std::vector<std::vector<bool>> fits)
      : fits_(std::move(fits)), partner_(fits_.empty() ? 0 : fits_.front().size(), kNone) {}

  bool complete() {
    for (size_t i = 0; i < fits_.size(); ++i) {
      std::vector<bool> seen(partner_.size(), false);
      if (!place(i, seen)) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  bool place(size_t expected, std::vector<bool>& seen) {
    for (size_t j = 0; j < partner_.size(); ++j) {
      if (!fits_[expected][j] || seen[j]) continue;
      seen[j] = true;
      if (partner_[j] == kNone || place(partner_[j], seen)) {
        partner_[j] = expected;
        return true;
      }
    }
    return false;
  }

  std::vector<std::vector<bool>> fits_;  // [expected][call]
  std::vector<size_t> partner_;          // expected call of each call
};

const FunctionSchema* find_schema(const std::vector<FunctionSchema>& schemas, std::string_view name) {
  const auto found = std::find_if(schemas.begin(), schemas.end(),
                                  [&](const FunctionSchema& schema) { return schema.name == name; });
  return found == schemas.end() ? nullptr : &*found;
}

void check_type(const Json& described, std::string_view where, std::string_view source) {
  const auto type = described.find("type");
  if (type == described.end() || !type->is_string() ||
      find_type(type->get_ref<const std::string&>()) == nullptr) {
    fail(ErrorCode::kInvalidArgument, "{}: {}: no \"type\" that is known (string, integer, ...)", source,
         where);
  }
}

void check_property(const std::string& name, const Json& property, std::string_view source) {
  if (!property.is_object()) {
    fail(ErrorCode::kInvalidArgument, "{}: parameter \"{}\" is no object", source, name);
  }
  check_type(property, fmt::format("parameter \"{}\"", name), source);
  const auto items = property.find("items");
  if (items != property.end() && items->is_object() && items->contains("type")) {
    check_type(*items, fmt::format("items of parameter \"{}\"", name), source);
  }
}

}  // namespace

FunctionSchema parse_function_schema(const Json& json, std::string_view source) {
  const auto bad = [&](std::string_view what) { fail(ErrorCode::kInvalidArgument, "{}: {}", source, what); };
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string())
    bad("a function without \"name\"");
  FunctionSchema schema{.name = json["name"].get<std::string>()};
  const auto parameters = json.find("parameters");
  if (parameters == json.end() || !parameters->is_object())
    bad("a function without an object \"parameters\"");
  if (const auto properties = parameters->find("properties"); properties != parameters->end()) {
    if (!properties->is_object()) bad("\"properties\" is no object");
    for (const auto& entry : properties->items()) check_property(entry.key(), entry.value(), source);
    schema.properties = *properties;
  }
  if (const auto required = parameters->find("required");
      required != parameters->end() && !required->is_null()) {
    if (!required->is_array()) bad("\"required\" is no list");
    for (const Json& name : *required) {
      if (!name.is_string()) bad("\"required\" holds something that is no text");
      schema.required.push_back(name.get<std::string>());
    }
  }
  return schema;
}

ExpectedCall parse_expected_call(const Json& json, std::string_view source) {
  if (!json.is_object() || json.size() != 1 || !json.begin().value().is_object()) {
    fail(ErrorCode::kInvalidArgument, "{}: an expected call is {{NAME: {{PARAMETER: [VALUE, ...]}}}}",
         source);
  }
  for (const auto& entry : json.begin().value().items()) {
    if (!entry.value().is_array()) {
      fail(ErrorCode::kInvalidArgument, "{}: allowed values of \"{}\" are no list", source, entry.key());
    }
  }
  return {.name = json.begin().key(), .allowed = json.begin().value()};
}

std::string call_fault(const FunctionCall& call, const FunctionSchema& schema, const ExpectedCall& expected) {
  if (call.name != expected.name || call.name != schema.name) return fmt::format("calls {}", call.name);
  for (const std::string& name : schema.required) {
    if (!call.arguments.contains(name)) return fmt::format("lacks {}", name);
  }
  for (const auto& entry : call.arguments.items()) {
    const auto property = schema.properties.find(entry.key());
    const auto allowed = expected.allowed.find(entry.key());
    if (property == schema.properties.end() || allowed == expected.allowed.end()) {
      return fmt::format("has {}", entry.key());
    }
    if (!type_fits(entry.value(), *property, *allowed)) return fmt::format("type of {}", entry.key());
    if (!any_matches(entry.value(), *allowed)) return fmt::format("value of {}", entry.key());
  }
  for (const auto& entry : expected.allowed.items()) {
    if (!call.arguments.contains(entry.key()) && !may_be_absent(entry.value())) {
      return fmt::format("lacks {}", entry.key());
    }
  }
  return {};
}

std::string calls_fault(const std::vector<FunctionCall>& calls, const std::vector<FunctionSchema>& schemas,
                        const std::vector<ExpectedCall>& expected) {
  if (calls.size() != expected.size())
    return fmt::format("{} calls instead of {}", calls.size(), expected.size());
  std::vector<std::vector<bool>> fits(expected.size(), std::vector<bool>(calls.size(), false));
  std::string fault;
  for (size_t i = 0; i < expected.size(); ++i) {
    const FunctionSchema* schema = find_schema(schemas, expected[i].name);
    if (schema == nullptr) return fmt::format("no function {}", expected[i].name);
    for (size_t j = 0; j < calls.size(); ++j) {
      const std::string found = call_fault(calls[j], *schema, expected[i]);
      fits[i][j] = found.empty();
      if (i == j && fault.empty()) fault = found;
    }
  }
  if (Pairing(std::move(fits)).complete()) return {};
  return fault.empty() ? "no call for each expected one" : fault;
}

CallAgreement compare_calls(const std::vector<FunctionCall>& calls, const FunctionCall& reference) {
  if (calls.size() != 1) return {};
  const FunctionCall& call = calls.front();
  return {.parsed = true,
          .name = call.name == reference.name,
          .arguments = same_json(call.arguments, reference.arguments)};
}

}  // namespace calyrex::eval
