// Values of our own in the context of an autograd function, which keeps tensors and IValues.
#pragma once

#include <utility>

#include <ATen/core/ivalue.h>

namespace calyrex::model {

/// A copyable value, kept from the forward to the backward pass.
template <typename Value>
struct Held : torch::CustomClassHolder {
  explicit Held(Value kept) : value(std::move(kept)) {}
  const Value value;
};

template <typename Value>
c10::IValue hold(Value value) {
  return c10::IValue::make_capsule(c10::make_intrusive<Held<Value>>(std::move(value)));
}

/// A copy of what hold() was given, which must have been a Value.
template <typename Value>
Value held(const c10::IValue& kept) {
  const c10::intrusive_ptr<torch::CustomClassHolder> capsule = kept.toCapsule();
  return static_cast<const Held<Value>&>(*capsule).value;
}

}  // namespace calyrex::model
