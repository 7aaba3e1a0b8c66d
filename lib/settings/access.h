// Reads and writes the member of a structure that has a setting's value, whatever its type.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "settings/names.h"
#include "settings/setting.h"

namespace uroce::settings {

template <class Owner>
struct Access {
  using Target = Owner;
  Value (*get)(const Target&) = nullptr;
  void (*set)(Target&, const Value&) = nullptr;
  explicit operator bool() const { return get != nullptr; }
};

inline const auto& names_of(Retransmission) { return kRetransmissionNames; }
inline const auto& names_of(CongestionAlgorithm) { return kCongestionNames; }
inline const auto& names_of(IdlePolicy) { return kIdleNames; }
inline const auto& names_of(StackOptions::TxMode) { return kTxModeNames; }

template <class Member>
Value value_of(const Member& member) {
  if constexpr (std::is_enum_v<Member>) {
    return std::string(name_in(names_of(member), member));
  } else if constexpr (std::integral<Member> && !std::same_as<Member, bool>) {
    return static_cast<int64_t>(member);
  } else {
    return member;
  }
}
template <class Member>
Value value_of(const std::optional<Member>& member) {
  return member ? value_of(*member) : Value{};
}

template <class Member>
void store(Member& member, const Value& value) {
  if constexpr (std::is_enum_v<Member>) {
    for (const auto& [word, choice] : names_of(member)) {
      if (word == std::get<std::string>(value)) member = choice;
    }
  } else if constexpr (std::integral<Member> && !std::same_as<Member, bool>) {
    member = static_cast<Member>(std::get<int64_t>(value));
  } else {
    member = std::get<Member>(value);
  }
}
template <class Member>
void store(std::optional<Member>& member, const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) {
    member.reset();
    return;
  }
  Member stored{};
  store(stored, value);
  member = std::move(stored);
}

template <auto First, auto... Rest>
constexpr auto& at(auto& target) {
  if constexpr (sizeof...(Rest) == 0) {
    return target.*First;
  } else {
    return at<Rest...>(target.*First);
  }
}

template <class>
struct MemberPointer;
template <class Member, class Owner>
struct MemberPointer<Member Owner::*> {
  using Target = Owner;
};

/// The member at the end of the path, from the owner of the first one.
template <auto First, auto... Rest>
constexpr auto access() {
  using Target = typename MemberPointer<decltype(First)>::Target;
  return Access<Target>{[](const Target& target) { return value_of(at<First, Rest...>(target)); },
                        [](Target& target, const Value& value) { store(at<First, Rest...>(target), value); }};
}

template <class Member>
constexpr Kind kind_of() {
  if constexpr (std::same_as<Member, bool>) {
    return Kind::truth;
  } else if constexpr (std::integral<Member>) {
    return Kind::whole;
  } else if constexpr (std::floating_point<Member>) {
    return Kind::real;
  } else if constexpr (std::is_enum_v<Member>) {
    return Kind::word;
  } else {
    return Kind::text;
  }
}

template <class Choice>
std::vector<std::string_view> words_of() {
  std::vector<std::string_view> out;
  for (const auto& [word, choice] : names_of(Choice{})) out.push_back(word);
  return out;
}

/// The setting with the kind, and the words, of the member at the end of the path.
template <auto First, auto... Rest>
constexpr Setting typed(Setting setting) {
  using Target = typename MemberPointer<decltype(First)>::Target;
  using Member = std::remove_cvref_t<decltype(at<First, Rest...>(std::declval<Target&>()))>;
  if (setting.words != nullptr) {
    setting.kind = Kind::machine_word;
    return setting;
  }
  setting.kind = kind_of<Member>();
  if constexpr (std::is_enum_v<Member>) setting.words = words_of<Member>;
  return setting;
}

}  // namespace uroce::settings
