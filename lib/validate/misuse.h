// The misuses of verbs that UROCE_VALIDATE tells, each with a word that never changes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::validate {

enum class Misuse : uint8_t {
  unregistered,
  deregistered,
  outside_region,
  foreign_region,
  no_local_write,
  region_in_use,
  buffer_overlap,
  buffer_repeated,
  buffer_changed,
  memory_gone,
  cq_overrun,
  never_signalled,
  send_state,
  receive_state,
  bad_transition,
  missing_attribute,
  extra_attribute,
  inline_too_long,
  too_many_sges,
  wrong_opcode,
  undeclared_operation,
  atomic_unaligned,
  atomic_length,
  no_reads,
  datagram_too_long,
  receive_with_srq,
  foreign_ah,
  ah_in_flight,
  list_loop,
  wr_order,
  poll_order,
  two_threads,
  forked_child,
  destroyed_object,
  object_in_use,
  events_unacknowledged,
  events_overacknowledged,
};

struct MisuseRow {
  Misuse misuse;
  const char* word;
  bool note;  ///< legal, but seldom meant, or not portable: told only where notes are asked for
  const char* meaning;
  const char* way_out;
};

/// Rows stand in the order of the enumerators.
std::span<const MisuseRow> all_misuses();
const MisuseRow& row_of(Misuse misuse);
/// Nullopt where no misuse has this word.
std::optional<Misuse> misuse_of(std::string_view word);
/// A Markdown table of all words.
std::string table_of_misuses();

/// One misuse that was seen.
struct Finding {
  Misuse misuse;
  std::string text;  ///< the call, the object, the values and the limit
};
using Found = std::vector<Finding>;

}  // namespace uroce::validate
