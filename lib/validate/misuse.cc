#include "validate/misuse.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace uroce::validate {

namespace {

constexpr auto kRows = std::to_array<MisuseRow>({
    {Misuse::unregistered, "unregistered", false, "A request names a key that no region has",
     "register the memory, and pass the region's lkey"},
    {Misuse::deregistered, "deregistered", false, "A request names the key of a region that is deregistered",
     "keep the region until no request uses it"},
    {Misuse::outside_region, "outside-region", false, "A request names bytes outside its region",
     "register all of the buffer"},
    {Misuse::foreign_region, "foreign-region", false, "A request names a region of another protection domain",
     "register the memory in the queue's domain"},
    {Misuse::no_local_write, "no-local-write", false, "A receive, READ or atomic writes to a region without the right",
     "register it with IBV_ACCESS_LOCAL_WRITE"},
    {Misuse::region_in_use, "region-in-use", false, "A region goes while posted requests use it",
     "take their completions first, or destroy the queue pair"},
    {Misuse::buffer_overlap, "buffer-overlap", false, "Buffers overlap that two requests in flight write to",
     "give each request memory of its own"},
    {Misuse::buffer_repeated, "buffer-repeated", true, "Two requests in flight write to the same buffer",
     "give each a buffer of its own, unless nobody reads it"},
    {Misuse::buffer_changed, "buffer-changed", false, "A payload changed before its request completed",
     "leave the buffer alone until then"},
    {Misuse::memory_gone, "memory-gone", false, "A request sends memory that is not mapped any more",
     "deregister memory before it is unmapped"},
    {Misuse::cq_overrun, "cq-overrun", false, "More requests may complete than the completion queue holds",
     "create it with room for all, or post fewer"},
    {Misuse::never_signalled, "never-signalled", false, "No request in a full send queue is signalled",
     "signal one at least of each max_send_wr; other devices free no slot before its completion is polled"},
    {Misuse::send_state, "send-state", false, "A send is posted in RESET, INIT or RTR",
     "modify the queue pair to RTS first"},
    {Misuse::receive_state, "receive-state", false, "A receive is posted in RESET",
     "modify the queue pair to INIT first"},
    {Misuse::bad_transition, "bad-transition", false, "No queue pair goes from this state to that",
     "go by RESET, INIT, RTR and RTS"},
    {Misuse::missing_attribute, "missing-attribute", false, "A change of state lacks attributes that it needs",
     "set them, and their bits in the mask"},
    {Misuse::extra_attribute, "extra-attribute", false, "A change of state has attributes that it may not have",
     "leave their bits out of the mask"},
    {Misuse::inline_too_long, "inline-too-long", false, "Inline data are longer than max_inline_data",
     "ask for more when the queue pair is created, or register the memory"},
    {Misuse::too_many_sges, "too-many-sges", false, "A request has more entries than the queue was created for",
     "raise max_send_sge or max_recv_sge"},
    {Misuse::wrong_opcode, "wrong-opcode", false, "Queue pairs of this type lack the operation",
     "use another operation, or an RC queue pair"},
    {Misuse::undeclared_operation, "undeclared-operation", false, "send_ops_flags lacks the operation",
     "add its bit when the queue pair is created"},
    {Misuse::atomic_unaligned, "atomic-unaligned", false, "An atomic's remote address is no multiple of 8",
     "align the peer's variable"},
    {Misuse::atomic_length, "atomic-length", false, "An atomic's buffer does not have 8 bytes",
     "give it one entry of 8 bytes"},
    {Misuse::no_reads, "no-reads", false, "A READ or atomic is posted where max_rd_atomic is 0",
     "set max_rd_atomic at RTS, and the peer's max_dest_rd_atomic"},
    {Misuse::datagram_too_long, "datagram-too-long", false, "A datagram is longer than the port's MTU",
     "send at most active_mtu"},
    {Misuse::receive_with_srq, "receive-with-srq", false,
     "A receive is posted to a queue pair with a shared receive queue", "use ibv_post_srq_recv()"},
    {Misuse::foreign_ah, "foreign-ah", false, "A datagram's address handle is of another protection domain",
     "create it in the queue pair's domain"},
    {Misuse::ah_in_flight, "ah-in-flight", true, "An address handle goes while datagrams with it are in flight",
     "some devices need it until they complete"},
    {Misuse::list_loop, "list-loop", false, "A list of work requests leads back into itself",
     "end it with next = NULL"},
    {Misuse::wr_order, "wr-order", false, "Calls of ibv_wr_*() are out of order",
     "begin with ibv_wr_start(), then an operation, then its setters"},
    {Misuse::poll_order, "poll-order", false, "Calls of ibv_start_poll() and its like are out of order",
     "call the others only after a start that returned 0, and end once"},
    {Misuse::two_threads, "two-threads", false,
     "Two threads at once use a queue that was promised to one (thread domain, SINGLE_THREADED)",
     "give each thread its own, or promise nothing"},
    {Misuse::forked_child, "forked-child", false, "A child of fork() uses its parent's queue",
     "open the device in the child"},
    {Misuse::destroyed_object, "destroyed-object", false, "An object is used or destroyed after it was destroyed",
     "drop pointers to it when it goes"},
    {Misuse::object_in_use, "object-in-use", false, "An object is destroyed while others use it, which fails",
     "destroy those first"},
    {Misuse::events_unacknowledged, "events-unacknowledged", false,
     "An object's destruction waits for events that nobody acknowledges",
     "acknowledge each event that was got: ibv_ack_cq_events(), ibv_ack_async_event()"},
    {Misuse::events_overacknowledged, "events-overacknowledged", false, "More events are acknowledged than were got",
     "acknowledge each event once; destroying the object waits for ever otherwise"},
});

}  // namespace

std::span<const MisuseRow> all_misuses() { return kRows; }

const MisuseRow& row_of(Misuse misuse) { return kRows[static_cast<std::size_t>(misuse)]; }

std::optional<Misuse> misuse_of(std::string_view word) {
  const auto found = std::ranges::find(kRows, word, &MisuseRow::word);
  return found != kRows.end() ? std::optional(found->misuse) : std::nullopt;
}

std::string table_of_misuses() {
  std::string out = "|word|what the program does|\n|---|---|\n";
  for (const MisuseRow& row : kRows) {
    out += std::string("|`") + row.word + (row.note ? "` (note)|" : "`|") + row.meaning + "|\n";
  }
  return out;
}

}  // namespace uroce::validate
