// All that the clients of a daemon have, as bytes and descriptors, so that another daemon can go on with it.
//
// It is written while no engine moves and no request is served, and read as input: its author may be of another
// release, or wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include <uroce/error.h>

#include "message/codec.h"
#include "message/connection.h"
#include "message/succession_link.h"
#include "service/estate_rows.h"
#include "service/estate_versions.h"

namespace uroce::service {

struct Estate {
  EstateVersions versions{};
  std::vector<std::byte> rows{};
  std::vector<message::Fd> fds{};
};

/// Adds rows to an estate.
class EstateWriter {
 public:
  explicit EstateWriter(Estate& estate) : estate_(estate) {}

  /// The number of a copy of `fd`. Errors: EMFILE.
  Result<uint32_t> add(int fd);
  /// Whether the reader knows such rows.
  template <class T>
  bool can_add() const {
    return estate_.versions.estate >= since<T>();
  }
  const EstateVersions& versions() const { return estate_.versions; }
  /// A row that the reader does not know is left out. Ask can_add() where it can not do without.
  template <class T>
  void add(const T& row) {
    if (!can_add<T>()) return;
    estate_.rows.push_back(static_cast<std::byte>(T::kRow));
    const std::size_t at = estate_.rows.size();
    estate_.rows.resize(at + sizeof(uint32_t));
    message::encode(estate_.rows, row, estate_.versions.estate);
    const auto length = static_cast<uint32_t>(estate_.rows.size() - at - sizeof(uint32_t));
    std::memcpy(estate_.rows.data() + at, &length, sizeof length);
  }
  /// A state of the estate, to which take_back() returns.
  struct Mark {
    std::size_t rows, fds;
  };
  Mark mark() const { return {estate_.rows.size(), estate_.fds.size()}; }
  void take_back(const Mark& mark);

 private:
  Estate& estate_;
};

/// Reads rows in order.
class EstateReader {
 public:
  explicit EstateReader(Estate& estate) : estate_(estate), left_(estate.rows) {}

  bool at_end() const { return left_.empty(); }
  /// The kind of the next row. Errors: EPROTO (there is no whole row).
  Result<Row> next() const;
  /// The next row. Errors: EPROTO (it is another kind, or does not decode).
  template <class T>
  Result<T> take() {
    T row;
    auto bytes = take_bytes(T::kRow);
    if (!bytes) return std::unexpected(bytes.error());
    if (!message::decode(*bytes, row, estate_.versions.estate)) return bad_row(T::kRow);
    return row;
  }
  /// Goes on at the next row of one of the kinds, or at the end. Errors: EPROTO.
  Result<void> skip_to(std::initializer_list<Row> kinds);
  /// A descriptor of the estate, which gives it once. Errors: EPROTO.
  Result<message::Fd> take_fd(uint32_t number);
  /// It stays the estate's. Errors: EPROTO.
  Result<int> fd(uint32_t number) const;

 private:
  Result<std::span<const std::byte>> take_bytes(Row kind);
  std::unexpected<Error> bad_row(Row kind) const;

  Estate& estate_;
  std::span<const std::byte> left_;
};

/// Passes the estate to a daemon that takes over (Step::estate). Errors: those of the link; ENOMEM.
Result<void> send_estate(message::SuccessionLink& successor, const Estate& estate);
/// Errors: those of the link; EPROTO (it is cut short, or of a release that this one does not know).
Result<Estate> receive_estate(message::SuccessionLink& predecessor);

}  // namespace uroce::service
