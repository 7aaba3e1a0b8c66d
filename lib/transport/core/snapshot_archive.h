// How state is written to and read from a snapshot (qp/snapshot.h).
//
// A class names each of its members once, in `persist(archive)`; the same list writes and reads. Little-endian, fixed
// width, no padding, no pointers. Moments are written relative to the present, because another engine's clock may show
// another time. A reader believes nothing: the first value that is missing or out of its range is named in error(), and
// from then on members keep the values that they had.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <uroce/flags.h>

#include "base/bytes.h"
#include "base/psn.h"
#include "base/time.h"

namespace uroce::transport {

template <class Self>
class SnapshotArchive {
 public:
  Nanos now() const { return now_; }
  /// Fields that came with a later version are neither written nor read.
  uint32_t version() const { return version_; }

  template <class T>
  void operator()(const char* name, T& value) {
    const Scope scope(*this, name);
    one(value);
  }
  /// A value from `least` to `most`.
  template <class T>
  void operator()(const char* name, T& value, std::type_identity_t<T> least, std::type_identity_t<T> most) {
    const Scope scope(*this, name);
    bounded(value, least, most);
  }
  /// A time that may lie anywhere.
  void moment(const char* name, Nanos& at) {
    const Scope scope(*this, name);
    int64_t ahead = (at - now_).count();
    bounded(ahead, -kFarthest, kFarthest);
    if constexpr (Self::kReads) at = now_ + Nanos(ahead);
  }
  /// A time, or kNever. Never before the clock's beginning, where a timer wheel cannot reach.
  void deadline(const char* name, Nanos& at) {
    const Scope scope(*this, name);
    bool never = at == kNever;
    one(never);
    int64_t ahead = never ? 0 : (at - now_).count();
    bounded(ahead, -kFarthest, kFarthest);
    if constexpr (Self::kReads) at = never ? kNever : std::max(now_ + Nanos(ahead), Nanos(0));
  }
  /// As many elements as `list` has.
  template <class List>
  void elements(const char* name, List&& list) {
    const Scope scope(*this, name);
    for (auto& element : list) {
      path_[depth_ - 1].index = &element - &*std::begin(list);
      one(element);
    }
  }
  /// A value on which writer and reader must agree.
  template <class T>
  void same(const char* name, T value) {
    const Scope scope(*this, name);
    // A bool of any other byte must not be looked at.
    using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    const auto here = static_cast<Stored>(value);
    Stored written = here;
    raw(&written, sizeof written);
    if (written == here) return;
    refuse(
        fmt::format("is {} in the snapshot and {} here; make the QP with the QpSpec that it had, on an engine with "
                    "the same settings",
                    shown(written), shown(here)));
  }
  /// Fields named meanwhile are members of `name`.
  template <class Body>
  void group(const char* name, Body&& body) {
    const Scope scope(*this, name);
    body();
  }

 protected:
  struct Step {
    const char* name;
    int64_t index;  // -1: none
  };
  std::span<const Step> path() const { return std::span(path_).first(depth_); }

 private:
  friend Self;  // so that no other class can be Self
  SnapshotArchive(Nanos now, uint32_t version) : now_(now), version_(version) {}

  // 73 years. Sums of two do not overflow.
  static constexpr int64_t kFarthest = int64_t{1} << 61;
  // Structures are nested less deeply.
  static constexpr std::size_t kMostDepth = 16;

  class Scope {
   public:
    Scope(SnapshotArchive& archive, const char* name) : archive_(archive) {
      assert(archive.depth_ < kMostDepth);
      archive.path_[archive.depth_++] = {name, -1};
    }
    ~Scope() { --archive_.depth_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    SnapshotArchive& archive_;
  };

  Self& self() { return static_cast<Self&>(*this); }
  void raw(void* data, std::size_t n) { self().raw(data, n); }
  void refuse(const std::string& why) {
    if constexpr (Self::kReads) self().refuse(why);
  }

  template <class T>
  static auto shown(const T& value) {
    if constexpr (std::is_same_v<T, Nanos>) {
      return value.count();
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<uint32_t>(value);
    } else {
      return +value;
    }
  }
  template <class T>
  void bounded(T& value, T least, T most) {
    T read = value;
    raw(&read, sizeof read);
    // NaN is refused as well.
    if (read >= least && read <= most) {
      value = read;
    } else {
      refuse(fmt::format("is {}; it must be {} to {}", shown(read), shown(least), shown(most)));
    }
  }

  template <class T>
    requires std::is_integral_v<T>
  void one(T& value) {
    raw(&value, sizeof value);
  }
  void one(bool& value) {
    uint8_t byte = value ? 1 : 0;
    bounded<uint8_t>(byte, 0, 1);
    value = byte != 0;
  }
  void one(std::byte& value) { raw(&value, 1); }
  void one(Psn& psn) {
    uint32_t value = psn.value();
    bounded(value, 0u, Psn::kMask);
    psn = Psn(value);
  }
  template <class E>
  void one(Flags<E>& flags) {
    auto bits = flags.bits();
    raw(&bits, sizeof bits);
    flags = Flags<E>::from_bits(bits);
  }
  template <class T, std::size_t N>
  void one(std::array<T, N>& values) {
    for (T& value : values) one(value);
  }
  template <class T>
    requires requires(T& t, Self& s) { t.persist(s); }
  void one(T& value) {
    value.persist(self());
  }
  template <class T>
    requires requires(T& t, Self& s) { persist(s, t); }
  void one(T& value) {
    persist(self(), value);
  }

  Nanos now_;
  uint32_t version_;
  std::array<Step, kMostDepth> path_;
  std::size_t depth_ = 0;
};

class SnapshotWriter : public SnapshotArchive<SnapshotWriter> {
 public:
  static constexpr bool kReads = false;
  SnapshotWriter(std::vector<std::byte>& out, Nanos now, uint32_t version) : SnapshotArchive(now, version), out_(out) {}

  void raw(const void* data, std::size_t n) {
    const std::size_t at = out_.size();
    out_.resize(at + n);
    if (n != 0) std::memcpy(out_.data() + at, data, n);
  }
  void bytes(const char*, std::span<const std::byte> data) { raw(data.data(), data.size()); }

 private:
  std::vector<std::byte>& out_;
};

class SnapshotReader : public SnapshotArchive<SnapshotReader> {
 public:
  static constexpr bool kReads = true;
  SnapshotReader(std::span<const std::byte> in, Nanos now, uint32_t version) : SnapshotArchive(now, version), in_(in) {}

  bool good() const { return !error_.has_value(); }
  /// "tx.cursor.index is 7; it must be 3 to 5"
  const std::string& error() const { return *error_; }
  std::size_t left() const { return in_.size(); }
  /// The present field makes no sense. The first reason stands.
  void refuse(std::string why) {
    if (good()) error_ = fmt::format("{} {}", field(), why);
  }

  void raw(void* data, std::size_t n) {
    if (n > in_.size()) refuse("is missing: the snapshot ends before it");
    if (!good() || n == 0) return;
    std::memcpy(data, in_.data(), n);
    in_ = in_.subspan(n);
  }
  /// The next `n` bytes; empty when they are missing.
  std::span<const std::byte> bytes(std::size_t n) {
    if (n > in_.size()) refuse("is missing: the snapshot ends before it");
    if (!good()) return {};
    const auto taken = in_.first(n);
    in_ = in_.subspan(n);
    return taken;
  }

 private:
  std::string field() const {
    std::string text;
    for (const Step& step : path()) {
      if (!text.empty()) text += '.';
      text += step.name;
      if (step.index >= 0) text += fmt::format("[{}]", step.index);
    }
    return text;
  }

  std::span<const std::byte> in_;
  std::optional<std::string> error_;
};

}  // namespace uroce::transport
