// A tape stands between an engine and all that its own state does not determine, while the engine is recorded or
// replayed (lib/record). An engine without a tape never looks for one on the data path: a tape's engine is in a mode of
// its own, its completion queues are stopped, its address handles are in no table, and its table of keys has those
// alone that the tape has told it, so that each of the others goes the rare way, which finds the tape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <uroce/types.h>

#include "base/time.h"
#include "memory/region_table.h"
#include "queues/ring.h"
#include "transport/core/seam.h"

namespace uroce::transport {

class AddressHandleTable;
class CqWriter;
class Engine;
enum class FrameTakers : uint8_t;
struct Owner;
struct Qp;
struct Srq;

/// One engine's, which it outlives. Engine's thread, as Engine's functions say.
class Tape {
 public:
  virtual ~Tape() = default;

  // --- Where the engine is made ---------------------------------------------------------------------------------

  /// The tables that the engine has in place of these.
  virtual memory::RegionTable& keys(memory::RegionTable& real) = 0;
  virtual const AddressHandleTable* handles(const AddressHandleTable* real) = 0;
  virtual EngineEvents& events(EngineEvents& real) = 0;
  virtual void begin(Engine& engine) = 0;

  // --- The calls of an engine in this mode: each makes the engine do it, between Engine::untape() and retape() --

  virtual void on_frames(std::span<const RxFrame> frames, Nanos now) = 0;
  virtual void on_local_frames(std::span<const TxFrame> frames, Nanos now) = 0;
  virtual void on_raw_frames(std::span<const RxFrame> frames, Nanos now, FrameTakers takers) = 0;
  virtual bool poll(FrameSink& sink, Nanos now) = 0;
  /// Has the tape work for poll() that the engine does not see?
  virtual bool has_work() const = 0;

  // --- Met by a call --------------------------------------------------------------------------------------------

  /// The engine has read these bytes from memory that others write, or they follow from what it does not know.
  virtual void taken(std::span<std::byte> bytes) = 0;
  /// In place of CqWriter::write(); a CqWriter::Written.
  virtual uint8_t complete(CqWriter& cq, const queues::Cqe& cqe, bool solicited, EngineEvents& events) = 0;

  // --- Told by the engine: control has changed it ---------------------------------------------------------------

  virtual void on_attach(Qp& qp) = 0;   ///< it is in the table; its rings may be others from now on
  virtual void on_detach(Qp& qp) = 0;   ///< before
  virtual void on_removed(Qp& qp) = 0;  ///< its rings are its own again
  virtual void on_modify(Qp& qp, const QpAttr& attr, QpAttrMask mask, const wire::Route* route, bool loopback) = 0;
  virtual void on_modified(Qp& qp) = 0;  ///< after
  virtual void on_adopt(Qp& qp, std::span<const std::byte> snapshot, std::span<const Gid> former) = 0;
  virtual void on_adopt_unknown(Qp& qp) = 0;
  virtual void on_attach_ring(uint32_t id, const Owner& owner) = 0;
  virtual void on_detach_ring(uint32_t id) = 0;
  virtual void on_attach_srq(Srq& srq) = 0;
  virtual void on_detach_srq(Srq& srq) = 0;
  virtual void on_srq_detached(Srq& srq) = 0;
  virtual void on_srq_lent(Srq& srq) = 0;  ///< its ring is its own until on_srq_returned()
  virtual void on_srq_returned(Srq& srq) = 0;
  virtual void on_gids(std::span<const Gid> gids) = 0;
  virtual void on_whole_writes(bool whole) = 0;
  /// Of redirecting routes: each next hop that had another address.
  virtual void on_redirect(const Gid& to, const EthAddr& mac) = 0;
  /// Engine::outlive_thread() begins: no call ends as it began.
  virtual void on_outlived() = 0;
  /// Others are about to read what application and engine share: it says all that the engine has done.
  virtual void publish() = 0;
};

}  // namespace uroce::transport
