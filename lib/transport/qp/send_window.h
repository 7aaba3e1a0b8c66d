// How many packets of a queue pair may be in flight, and whether they are paced.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Packets that may be in flight after a timeout. If the peer is merely slow, a whole window of duplicates at each
/// timeout would keep it busy until the retries are exhausted.
inline constexpr uint32_t kWindowAfterTimeout = 4;

/// Bits per second, headers and all: the lower of congestion control's rate and the application's limit; 0: not paced.
uint64_t pace_of(const Qp& qp);
/// Sets qp.tx.window to the least that the engine, timeouts, the peer and congestion control allow, and qp.paced to
/// whether there is a pace. RC only.
void update_window(const Context& ctx, Qp& qp);
/// Before the request packet with `psn` leaves: borrows memory of the engine where more than a few packets are in
/// flight. Where there is none, the window is a few packets until all are acknowledged. Returns whether it had to
/// borrow.
inline bool make_room(Context& ctx, Qp& qp, Psn psn);
void borrow_block(Context& ctx, Qp& qp);  // the rare part of make_room()
/// All packets are acknowledged. Gives the memory back where others may need it.
inline void end_flight(Context& ctx, Qp& qp);
/// No packet is in flight, or counts any more.
inline void give_back_block(Context& ctx, Qp& qp);
/// Gives the QP the congestion control that it or the device asks for; before RTR. RC only.
void choose_congestion_control(const Context& ctx, Qp& qp);

inline bool make_room(Context& ctx, Qp& qp, Psn psn) {
  if (!qp.tx.recovery->loss.wants_block(psn, qp.tx.una)) [[likely]]
    return false;
  borrow_block(ctx, qp);
  return true;
}
inline void end_flight(Context& ctx, Qp& qp) {
  if (qp.tx.recovery->short_of_memory || (ctx.windows.scarce() && qp.tx.recovery->loss.has_block())) [[unlikely]]
    give_back_block(ctx, qp);
}
inline void give_back_block(Context& ctx, Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  r.short_of_memory = false;
  if (std::byte* block = r.loss.shorten(qp.tx.sent); block != nullptr) ctx.windows.give_back(block, qp.cold->user);
}

}  // namespace uroce::transport
