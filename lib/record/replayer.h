// Runs an engine on a recording, in the recording's time, and compares all that it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "record/checks.h"
#include "record/format.h"
#include "record/shadow.h"
#include "transport/core/tape.h"
#include "transport/datagram/address_handles.h"
#include "transport/engine/engine.h"
#include "transport/qp/cq_writer.h"
#include "transport/qp/srq.h"

namespace uroce::record {

/// The findings of a replay.
struct Report {
  uint64_t records = 0;
  uint64_t keyframes = 0;  ///< that were checked, besides the one that it began at
  uint64_t calls = 0;
  uint64_t frames_in = 0;
  uint64_t frames_out = 0;
  uint64_t completions = 0;
  uint64_t events = 0;
  Nanos first{-1}, last{-1};  ///< times of the first and the last call
  bool cut = false;           ///< the recording ends within a call
  /// Where and how the engine did something else; nullopt: it did all the same.
  std::optional<std::string> divergence{};
  bool malformed = false;  ///< `divergence` says what no recorder has written
  bool stopped = false;    ///< a watch has ended it
};

/// One frame that the engine gets or sends.
struct Passing {
  uint64_t number = 0;  ///< from 1, of both directions
  bool in = false;
  Nanos now{};
  std::span<const std::byte> frame{};  ///< from Ethernet to ICRC; payload that was not recorded is zeros
};

/// A look-up of a key, and what came of it.
struct Lookup {
  memory::Key key = 0;
  uint64_t address = 0, length = 0;
  AccessFlags needed{};
  memory::AccessResult result{};
  bool invalidates = false;  ///< the key opens nothing any more
};

/// Looks on at a replay.
class Watch {
 public:
  virtual ~Watch() = default;
  /// Each record but the first, before it is played. A frame's record comes before on_frame() of its frames.
  virtual void on_record(const Record&) {}
  virtual void on_lookup(const Lookup&) {}
  /// Before the engine gets the frame, or when it has been built. False: the replay ends with the engine's call.
  virtual bool on_frame(const Passing& frame, transport::Engine& engine) = 0;
  /// Then, after that call.
  virtual void on_stop(transport::Engine& engine) = 0;
};

class Replayer final : public transport::Tape, memory::KeyLookups, transport::HandleLookups, transport::EngineEvents {
 public:
  /// `records`: those of a file, which may be any bytes. `watch` may be nullptr, and outlives this.
  explicit Replayer(std::span<const std::byte> records, Watch* watch = nullptr,
                    std::size_t most_ring_bytes = kMostRingBytes);
  ~Replayer() override;

  /// Once.
  Report run();

 private:
  // --- Tape -----------------------------------------------------------------------------------------------------
  memory::RegionTable& keys(memory::RegionTable&) override { return keys_; }
  const transport::AddressHandleTable* handles(const transport::AddressHandleTable* real) override {
    return real != nullptr ? &handles_ : nullptr;
  }
  transport::EngineEvents& events(transport::EngineEvents&) override { return *this; }
  void begin(transport::Engine&) override {}
  // The replay itself makes the engine's calls.
  void on_frames(std::span<const transport::RxFrame>, Nanos) override {}
  void on_local_frames(std::span<const transport::TxFrame>, Nanos) override {}
  void on_raw_frames(std::span<const transport::RxFrame>, Nanos, transport::FrameTakers) override {}
  bool poll(transport::FrameSink&, Nanos) override { return false; }
  bool has_work() const override { return false; }
  void taken(std::span<std::byte> bytes) override;
  uint8_t complete(transport::CqWriter& cq, const queues::Cqe& cqe, bool solicited,
                   transport::EngineEvents& events) override;
  void on_attach(transport::Qp&) override {}
  void on_detach(transport::Qp&) override {}
  void on_removed(transport::Qp&) override {}
  void on_modify(transport::Qp&, const QpAttr&, QpAttrMask, const wire::Route*, bool) override {}
  void on_modified(transport::Qp&) override {}
  void on_adopt(transport::Qp&, std::span<const std::byte>, std::span<const Gid>) override {}
  void on_adopt_unknown(transport::Qp&) override {}
  void on_attach_ring(uint32_t, const transport::Owner&) override {}
  void on_detach_ring(uint32_t) override {}
  void on_attach_srq(transport::Srq&) override {}
  void on_detach_srq(transport::Srq&) override {}
  void on_srq_detached(transport::Srq&) override {}
  void on_srq_lent(transport::Srq&) override {}
  void on_srq_returned(transport::Srq&) override {}
  void on_gids(std::span<const Gid>) override {}
  void on_whole_writes(bool) override {}
  void on_redirect(const Gid&, const EthAddr&) override {}
  void on_outlived() override {}
  void publish() override {}

  // --- Look-ups -------------------------------------------------------------------------------------------------
  memory::Translation translate(memory::Key key, memory::PdId pd, uint64_t address, uint64_t length, AccessFlags needed,
                                uint32_t qpn) override;
  memory::AccessResult check_key(memory::Key, memory::PdId, AccessFlags, uint32_t) override { return key_result(); }
  memory::AccessResult invalidate(memory::Key key, memory::PdId, uint32_t) override;
  bool bind(const memory::BindSpec&) override { return take(Kind::key).small != 0; }
  const transport::AddressHandle* find(transport::AddressHandleId id, memory::PdId pd) override;
  const memory::RegionSpec* region_of(memory::Key key);
  memory::AccessResult key_result();
  memory::Translation look_up(uint64_t length, AccessFlags needed);

  // --- Events of the engine -------------------------------------------------------------------------------------
  void on_completion_event(uint32_t) override {}  // when one is raised depends on the application
  void on_async_event(AsyncEventType type, uint32_t object) override;
  void on_wrong_key(const Gid&, uint32_t) override {}
  void on_end(const transport::QpEnd&) override {}

  class Sink final : public transport::FrameSink {
   public:
    explicit Sink(Replayer& replayer) : replayer_(replayer) {}
    std::size_t room() override { return replayer_.room(); }
    void send(std::span<const transport::TxFrame> frames) override { replayer_.send(frames); }

   private:
    Replayer& replayer_;
  };
  std::size_t room();
  void send(std::span<const transport::TxFrame> frames);
  void compare_sent(const Record& record, const transport::TxFrame& frame, std::size_t at, const LocalFrameRecord& was,
                    std::span<const std::byte> header, std::span<const std::byte> payload) const;

  struct Queue {
    ShadowSrq shadow;
    Lines held;
    transport::Srq srq;
    std::size_t bytes = 0;  ///< of its ring
    int users = 0;          ///< queue pairs; and the engine, where it is attached
  };
  struct QueuePair {
    ShadowQp shadow;
    Lines held;
    transport::QpPtr qp;
    Queue* srq = nullptr;
    std::size_t bytes = 0;  ///< of its rings, and of what it has for them
  };
  struct CompletionQueue {
    queues::CqHeader header{};
    std::unique_ptr<transport::CqWriter> writer;
  };

  /// The next record, which must be of this kind: the engine asks for it.
  Record take(Kind kind);
  Record next();
  [[noreturn]] void diverge(const Record& record, const std::string& what) const;
  void find_bad_icrcs(std::span<const std::byte> records);
  std::span<const std::byte> make_engine(const Record& record);
  void begin_at(const Record& keyframe);
  void check_keyframe(const Record& keyframe);
  std::vector<std::byte> with_more(std::span<const std::byte> state);
  void play(const Record& record);
  bool play_input(const Record& record);
  bool play_control(const Record& record);
  void play_to_end();
  void play_handed_over();
  void play_frames(const Record& record);
  void play_local_frames(const Record& record);
  void play_poll(const Record& record);
  void note_call(Nanos now);
  struct Burst;
  Burst read_frames(const Record& record, Parts& parts, bool icrcs);
  void show(bool in, std::span<const std::byte> frame);
  void show_sent(const transport::TxFrame& frame, bool in);

  void put_slots(const Record& record);
  void attach(const Record& record);
  QueuePair& make(const Record& record, const QpRecord& what);
  void use_srq(const Record& record);
  void attach_srq(const Record& record, bool attaches);
  void take_memory(const Record& record, std::size_t bytes);
  void modify(const Record& record);
  void adopt(const Record& record, bool known);
  void set_groups(const Record& record);
  void set_flows(const Record& record);
  QueuePair& qp_of(const Record& record, uint32_t qpn);
  Queue& srq_of(const Record& record, uint32_t id);
  transport::CqWriter* cq_of(bool has, uint32_t id);
  void control(Nanos now, const std::function<void(transport::Engine&)>& work);

  std::span<const std::byte> records_;
  Reader in_;
  Watch* watch_;
  std::size_t most_ring_bytes_;
  std::size_t ring_bytes_ = 0;
  bool stops_ = false;
  Report report_;
  uint64_t passing_ = 0;
  Nanos now_{0};
  std::map<uint64_t, std::set<uint32_t>> bad_icrcs_;  // by the record of the burst
  memory::RegionTable keys_;
  transport::AddressHandleTable handles_;
  Sink sink_{*this};
  std::map<uint32_t, transport::AddressHandle> known_handles_;
  std::map<uint32_t, HandleRecord> found_handles_;
  std::map<memory::Key, memory::RegionSpec> regions_;
  uint64_t checks_ = 0;
  uint64_t handle_checks_ = 0;
  // Memory of which the engine reads and writes what nobody looks at.
  std::span<std::byte> scratch_{};
  std::map<uint32_t, CompletionQueue> cqs_;
  std::map<uint32_t, Queue> srqs_;
  std::unique_ptr<transport::Engine> engine_;
  std::map<uint32_t, QueuePair> qps_;
};

}  // namespace uroce::record
