// Records an engine: all that its own state does not determine, and what it did.
//
// The engine works on private copies of the rings that it shares with applications (record/shadow.h). They are brought
// up to date before a call, and what the engine did to them is told to the applications after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "record/alike.h"
#include "record/shadow.h"
#include "record/writer.h"
#include "transport/core/tape.h"
#include "transport/datagram/address_handles.h"
#include "transport/engine/engine.h"

namespace uroce::record {

class Recorder final : public transport::Tape, memory::KeyLookups, transport::HandleLookups, transport::EngineEvents {
 public:
  /// `memory` is laid out (record/writer.h) and outlives this. When a keyframe does not fit into it, the engine goes on
  /// and no more is recorded.
  explicit Recorder(std::span<std::byte> memory) : out_(memory), keys_(*this, kRegionsAtHand), handles_(*this) {}
  ~Recorder() override;

  uint64_t written() const { return out_.written(); }
  bool stopped() const { return out_.stopped(); }
  /// Before the first call. `tell` is called on the engine's thread behind a call in which a queue pair ended by
  /// itself, with its end and how many others ended besides. From then on nothing is overwritten, until unpin().
  using TellEnd = std::function<void(const transport::QpEnd& end, uint32_t others)>;
  void tell_ends(TellEnd tell) { tell_end_ = std::move(tell); }
  /// Likewise, when nothing more is recorded because a keyframe did not fit.
  void tell_full(std::function<void()> tell) { tell_full_ = std::move(tell); }
  /// Any thread.
  void unpin() { out_.unpin(); }

 private:
  // --- Tape -----------------------------------------------------------------------------------------------------
  memory::RegionTable& keys(memory::RegionTable& real) override;
  const transport::AddressHandleTable* handles(const transport::AddressHandleTable* real) override;
  transport::EngineEvents& events(transport::EngineEvents& real) override;
  void begin(transport::Engine& engine) override;
  void on_frames(std::span<const transport::RxFrame> frames, Nanos now) override;
  void on_local_frames(std::span<const transport::TxFrame> frames, Nanos now) override;
  void on_raw_frames(std::span<const transport::RxFrame> frames, Nanos now, transport::FrameTakers takers) override;
  bool poll(transport::FrameSink& sink, Nanos now) override;
  bool has_work() const override { return !again_.empty(); }
  void taken(std::span<std::byte> bytes) override;
  uint8_t complete(transport::CqWriter& cq, const queues::Cqe& cqe, bool solicited,
                   transport::EngineEvents& events) override;
  void on_attach(transport::Qp& qp) override;
  void on_detach(transport::Qp& qp) override;
  void on_removed(transport::Qp& qp) override;
  void on_modify(transport::Qp& qp, const QpAttr& attr, QpAttrMask mask, const wire::Route* route,
                 bool loopback) override;
  void on_modified(transport::Qp& qp) override;
  void on_adopt(transport::Qp& qp, std::span<const std::byte> snapshot, std::span<const Gid> former) override;
  void on_adopt_unknown(transport::Qp& qp) override;
  void on_attach_ring(uint32_t id, const transport::Owner& owner) override;
  void on_detach_ring(uint32_t id) override;
  void on_attach_srq(transport::Srq& srq) override;
  void on_detach_srq(transport::Srq& srq) override;
  void on_srq_detached(transport::Srq& srq) override;
  void on_srq_lent(transport::Srq& srq) override;
  void on_srq_returned(transport::Srq& srq) override;
  void on_gids(std::span<const Gid> gids) override;
  void on_whole_writes(bool whole) override;
  void on_redirect(const Gid& to, const EthAddr& mac) override;
  void on_outlived() override { out_.stop(); }
  void publish() override;

  // --- Look-ups -------------------------------------------------------------------------------------------------
  memory::Translation translate(memory::Key key, memory::PdId pd, uint64_t address, uint64_t length, AccessFlags needed,
                                uint32_t qpn) override;
  memory::AccessResult check_key(memory::Key key, memory::PdId pd, AccessFlags needed, uint32_t qpn) override;
  memory::AccessResult invalidate(memory::Key key, memory::PdId pd, uint32_t qpn) override;
  bool bind(const memory::BindSpec& spec) override;
  const transport::AddressHandle* find(transport::AddressHandleId id, memory::PdId pd) override;

  // --- Events of the engine -------------------------------------------------------------------------------------
  void on_completion_event(uint32_t cq_id) override { real_events_->on_completion_event(cq_id); }
  void on_async_event(AsyncEventType type, uint32_t object) override;
  void on_wrong_key(const Gid& peer, uint32_t qpn) override { real_events_->on_wrong_key(peer, qpn); }
  void on_end(const transport::QpEnd& end) override;

  // A look-up of one of these costs no more than in an engine that is not recorded.
  static constexpr uint32_t kRegionsAtHand = 1024;
  using Regions = std::unordered_map<memory::Key, memory::RegionSpec>;
  Regions::iterator learn(memory::Key key, const memory::RegionSpec& region);
  void forget_regions();

  // --- Handed to the sink ---------------------------------------------------------------------------------------
  class Sink final : public transport::FrameSink {
   public:
    explicit Sink(Recorder& recorder) : recorder_(recorder) {}
    void set(transport::FrameSink& real) { real_ = &real; }
    std::size_t room() override;
    void send(std::span<const transport::TxFrame> frames) override;
    bool references_payload() override { return real_->references_payload(); }
    uint64_t mark_payload() override { return real_->mark_payload(); }
    bool references_payload_before(uint64_t mark) override { return real_->references_payload_before(mark); }

   private:
    Recorder& recorder_;
    transport::FrameSink* real_ = nullptr;
  };

  // --- Shared memory, before and after a call -------------------------------------------------------------------
  static ShadowQp& shadow_of(const transport::Qp& qp) { return *reinterpret_cast<ShadowQp*>(qp.tx.doorbell); }
  void begin_call();
  void end_call();
  void look_after_call();
  void keyframe();
  void tell_of_end();
  /// Before the engine gets a frame for the queue pair.
  void meet(transport::Qp& qp);
  void meet_receiver(uint32_t qpn);
  /// Those of a kind whose receives a frame for no single queue pair may take.
  void meet_all(QpType type);
  void take_sends(transport::Qp& qp);
  void take_receives(transport::Qp& qp);
  void take_srq(transport::Srq& srq);
  void take_slots(Kind kind, ShadowRing& ring, uint32_t object);
  void give(transport::Qp& qp);
  void give_slots(const transport::Qp& qp);
  void give_srq(const transport::Srq& srq);
  void watch(transport::Qp& qp);
  void take_doorbell(const transport::DoorbellFrom& from, uint32_t token);
  void write_tables();

  void write_srq(transport::Srq& srq, ShadowSrq& shadow);
  ShadowSrq& use_srq(transport::Srq& srq);
  void release_srq(transport::Srq& srq);
  void use_cq(transport::CqWriter* cq);
  void release_cq(transport::CqWriter* cq);
  void check_icrcs(std::span<const transport::RxFrame> frames);
  void write_received(Kind kind, uint16_t small, std::span<const transport::RxFrame> frames, std::size_t bytes,
                      Nanos now);
  void write_idle();
  void write_sent(Kind kind, std::span<const transport::TxFrame> frames, Nanos now);

  Writer out_;
  transport::Engine* engine_ = nullptr;
  memory::RegionTable* real_keys_ = nullptr;
  const transport::AddressHandleTable* real_handles_ = nullptr;
  transport::EngineEvents* real_events_ = nullptr;
  memory::RegionTable keys_;
  transport::AddressHandleTable handles_;
  Sink sink_{*this};

  std::unordered_map<const transport::Qp*, std::unique_ptr<ShadowQp>> qps_;
  std::unordered_map<transport::Srq*, std::unique_ptr<ShadowSrq>> srqs_;
  std::unordered_map<transport::CqWriter*, uint32_t> cqs_;  // how many queue pairs write to it
  std::vector<transport::Qp*> watched_;                     // may have something to tell their applications
  std::size_t next_watched_ = 0;
  const transport::Qp* detaching_ = nullptr;
  transport::Qp* completed_ = nullptr;  // of the newest completion
  std::vector<transport::Qp*> again_;   // take receives that were posted without a doorbell
  std::unordered_map<uint32_t, HandleRecord> known_handles_;
  std::unordered_map<uint32_t, transport::AddressHandle> found_handles_;
  std::vector<std::pair<transport::DoorbellFrom, uint32_t>> tokens_;
  std::vector<Run> runs_;  // of the burst that is being written
  Regions regions_;        // that were looked up since the last keyframe; keys_ has learnt most of them
  uint64_t regions_seen_ = 0;
  uint64_t checks_ = 0;
  uint64_t handle_checks_ = 0;
  uint32_t groups_seen_ = 0, flows_seen_ = 0;
  Nanos idle_{-1};
  uint32_t depth_ = 0;  // of calls
  TellEnd tell_end_;
  std::function<void()> tell_full_;
  std::optional<transport::QpEnd> ended_;  // in this call
  uint32_t more_ended_ = 0;
};

}  // namespace uroce::record
