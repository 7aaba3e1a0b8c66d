// Structures to bytes and back, for messages between processes that do not trust each other.
//
// A structure names its members once, in `fields(archive)`; the same list writes and reads. Little-endian, no padding,
// lengths in front of what varies. A reader never goes past its bytes: what is missing or too long makes it bad, and
// everything read from then on is zero.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <uroce/flags.h>

namespace uroce::message {

/// Most elements of a list, and most bytes of a string.
inline constexpr uint32_t kMaxElements = 4096;

template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

template <class Self>
class Archive {
 public:
  template <class... T>
  void operator()(T&... members) {
    (one(members), ...);
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }

  template <Number T>
  void one(T& value) {
    self().raw(&value, sizeof value);
  }
  /// A byte of any value is read as a bool; only 0 and 1 are ever in one.
  void one(bool& value) {
    uint8_t byte = value ? 1 : 0;
    self().raw(&byte, sizeof byte);
    value = byte != 0;
  }
  template <Number T, std::size_t N>
  void one(std::array<T, N>& values) {
    self().raw(values.data(), sizeof values);
  }
  template <class E>
  void one(Flags<E>& flags) {
    auto bits = flags.bits();
    self().raw(&bits, sizeof bits);
    flags = Flags<E>::from_bits(bits);
  }
  void one(std::string& text) {
    const uint32_t n = self().count(text.size(), 1);
    if constexpr (Self::kReads) text.resize(n);
    self().raw(text.data(), n);
  }
  template <class T>
  void one(std::vector<T>& list) {
    const uint32_t n = self().count(list.size(), 1);
    if constexpr (Self::kReads) list.resize(n);
    for (T& element : list) one(element);
  }
  template <class A, class B>
  void one(std::pair<A, B>& both) {
    one(both.first);
    one(both.second);
  }
  template <class T>
    requires requires(T& t, Self& s) { t.fields(s); }
  void one(T& value) {
    value.fields(self());
  }
};

class Writer : public Archive<Writer> {
 public:
  static constexpr bool kReads = false;
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  void raw(const void* data, std::size_t n) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), bytes, bytes + n);
  }
  uint32_t count(std::size_t n, std::size_t) {
    const auto value = static_cast<uint32_t>(n);
    raw(&value, sizeof value);
    return value;
  }

 private:
  std::vector<std::byte>& out_;
};

class Reader : public Archive<Reader> {
 public:
  static constexpr bool kReads = true;
  explicit Reader(std::span<const std::byte> in) : in_(in) {}

  /// Everything was there, and nothing is left.
  bool complete() const { return good_ && in_.empty(); }
  std::span<const std::byte> rest() const { return in_; }
  bool good() const { return good_; }

  void raw(void* data, std::size_t n) {
    if (n > in_.size()) good_ = false;
    if (!good_) {
      if (n != 0) std::memset(data, 0, n);
      return;
    }
    if (n != 0) std::memcpy(data, in_.data(), n);
    in_ = in_.subspan(n);
  }
  /// Elements that follow, each of at least `least` bytes: never more than the bytes can hold.
  uint32_t count(std::size_t, std::size_t least) {
    uint32_t n = 0;
    raw(&n, sizeof n);
    if (n > kMaxElements || n > in_.size() / least) good_ = false;
    return good_ ? n : 0;
  }

 private:
  std::span<const std::byte> in_;
  bool good_ = true;
};

/// Writing does not change what is written; the one list of members serves both directions.
template <class T>
void encode(std::vector<std::byte>& out, const T& value) {
  Writer writer(out);
  writer(const_cast<T&>(value));
}

/// False where `bytes` are not exactly one T.
template <class T>
bool decode(std::span<const std::byte> bytes, T& value) {
  Reader reader(bytes);
  reader(value);
  return reader.complete();
}

}  // namespace uroce::message
