// Structures to bytes and back, for messages between processes that do not trust each other.
//
// A structure names its members once, in a static `fields(self, archive)`: `self` is const where the archive writes.
// For a structure of the public API, a specialization of `Fields` does the same (public_types.h). Little-endian, no
// padding; a length precedes each list and text. A reader never goes past its bytes: a missing or too long value makes
// it bad, and everything that it reads afterwards is zero.
//
// Members that came with a later version of the protocol are named by `archive.since(version, self.member)`. Towards a
// side that speaks an older one they are left out: the reader keeps their initial values.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <uroce/flags.h>

namespace uroce::message {

/// Most elements of a list, and most bytes of a string.
inline constexpr uint32_t kMaxElements = 4096;
/// A version of the protocol that has every member.
inline constexpr uint32_t kEveryMember = UINT32_MAX;

template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

/// The members of a structure that cannot name them itself: `static void visit(auto& self, auto& archive)`.
template <class T>
struct Fields;

/// Passes the members of `self`, const or not, to `archive`.
template <class T, class Archive>
void visit_fields(T& self, Archive& archive) {
  using Plain = std::remove_const_t<T>;
  if constexpr (requires { Plain::fields(self, archive); }) {
    Plain::fields(self, archive);
  } else {
    Fields<Plain>::visit(self, archive);
  }
}

class Writer {
 public:
  /// `protocol`: the version that the reader speaks.
  explicit Writer(std::vector<std::byte>& out, uint32_t protocol = kEveryMember) : out_(out), protocol_(protocol) {}

  template <class... T>
  void operator()(const T&... members) {
    (one(members), ...);
  }
  template <class... T>
  void since(uint32_t version, const T&... members) {
    if (protocol_ >= version) (one(members), ...);
  }
  /// More values than a list may have elements.
  template <Number T>
  void many(const std::vector<T>& values) {
    count(values.size());
    raw(values.data(), values.size() * sizeof(T));
  }

 private:
  void raw(const void* data, std::size_t n) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), bytes, bytes + n);
  }
  void count(std::size_t n) { one(static_cast<uint32_t>(n)); }

  template <Number T>
  void one(const T& value) {
    raw(&value, sizeof value);
  }
  void one(const bool& value) { one(static_cast<uint8_t>(value ? 1 : 0)); }
  template <Number T, std::size_t N>
  void one(const std::array<T, N>& values) {
    raw(values.data(), sizeof values);
  }
  template <class E>
  void one(const Flags<E>& flags) {
    one(flags.bits());
  }
  void one(const std::string& text) {
    count(text.size());
    raw(text.data(), text.size());
  }
  template <class T>
  void one(const std::vector<T>& list) {
    count(list.size());
    for (const T& element : list) one(element);
  }
  template <class A, class B>
  void one(const std::pair<A, B>& both) {
    one(both.first);
    one(both.second);
  }
  template <class T>
  void one(const T& structure) {
    visit_fields(structure, *this);
  }

  std::vector<std::byte>& out_;
  const uint32_t protocol_;
};

class Reader {
 public:
  /// `protocol`: the version that the writer spoke.
  explicit Reader(std::span<const std::byte> in, uint32_t protocol = kEveryMember) : in_(in), protocol_(protocol) {}

  template <class... T>
  void operator()(T&... members) {
    (one(members), ...);
  }
  template <class... T>
  void since(uint32_t version, T&... members) {
    if (protocol_ >= version) (one(members), ...);
  }
  template <Number T>
  void many(std::vector<T>& values) {
    uint32_t n = 0;
    raw(&n, sizeof n);
    if (n > in_.size() / sizeof(T)) good_ = false;
    values.resize(good_ ? n : 0);
    raw(values.data(), values.size() * sizeof(T));
  }

  /// All values were read, and no bytes are left.
  bool complete() const { return good_ && in_.empty(); }
  std::span<const std::byte> rest() const { return in_; }
  bool good() const { return good_; }

 private:
  void raw(void* data, std::size_t n) {
    if (n > in_.size()) good_ = false;
    if (n == 0) return;
    if (!good_) {
      std::memset(data, 0, n);
      return;
    }
    std::memcpy(data, in_.data(), n);
    in_ = in_.subspan(n);
  }
  /// Elements that follow, each of at least one byte: never more than the bytes can hold.
  uint32_t count() {
    uint32_t n = 0;
    raw(&n, sizeof n);
    if (n > kMaxElements || n > in_.size()) good_ = false;
    return good_ ? n : 0;
  }

  template <Number T>
  void one(T& value) {
    raw(&value, sizeof value);
  }
  /// A byte of any value is read as a bool; only 0 and 1 are ever in one.
  void one(bool& value) {
    uint8_t byte = 0;
    raw(&byte, sizeof byte);
    value = byte != 0;
  }
  template <Number T, std::size_t N>
  void one(std::array<T, N>& values) {
    raw(values.data(), sizeof values);
  }
  template <class E>
  void one(Flags<E>& flags) {
    typename Flags<E>::Bits bits{};
    raw(&bits, sizeof bits);
    flags = Flags<E>::from_bits(bits);
  }
  void one(std::string& text) {
    text.resize(count());
    raw(text.data(), text.size());
  }
  template <class T>
  void one(std::vector<T>& list) {
    list.resize(count());
    for (T& element : list) one(element);
  }
  template <class A, class B>
  void one(std::pair<A, B>& both) {
    one(both.first);
    one(both.second);
  }
  template <class T>
  void one(T& structure) {
    visit_fields(structure, *this);
  }

  std::span<const std::byte> in_;
  const uint32_t protocol_;
  bool good_ = true;
};

template <class T>
void encode(std::vector<std::byte>& out, const T& value, uint32_t protocol = kEveryMember) {
  Writer writer(out, protocol);
  writer(value);
}

/// False where `bytes` are not exactly one T.
template <class T>
bool decode(std::span<const std::byte> bytes, T& value, uint32_t protocol = kEveryMember) {
  Reader reader(bytes, protocol);
  reader(value);
  return reader.complete();
}

}  // namespace uroce::message
