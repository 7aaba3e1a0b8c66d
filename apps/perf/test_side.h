// One side of a test, from the first message to the last result. It runs in steps, so that the client and the server of
// a back-to-back run take turns on one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perf/endpoint.h"
#include "perf/peer_channel.h"
#include "perf/receiver.h"
#include "perf/sender.h"
#include "perf/table.h"

namespace uroce::perf {

class TestSide {
 public:
  /// Keeps references. `table` may be null for a silent side.
  TestSide(Endpoint& endpoint, PeerChannel& channel, const Options& options, bool client, Table* table);

  /// Runs one step. Blocks only while QPs connect without rdma_cm (at most 3 s each), never in the measured time.
  Step step();
  bool finished() const { return phase_ == Phase::finished; }
  bool failed() const { return !problem_.empty(); }
  const std::string& problem() const { return problem_; }
  /// True when the peer failed first and reported it.
  bool reported_by_peer() const { return reported_by_peer_; }
  /// Ends the test and tells the peer why.
  void give_up(const std::string& why);
  /// True when this thread expects no completions and needs no core.
  bool resting() const { return phase_ != Phase::run || (!sender_ && !receiver_); }
  /// With -e: asks for an event at the next completion. False when the device refuses.
  bool arm();
  /// One result for each size: the client's, or the sum of both directions.
  const std::vector<SizeReport>& results() const { return results_; }

 private:
  enum class Phase : uint8_t { hello, link, connect, ready, go, run, done, finished };

  Step run_step();
  bool step_control();
  void keep_time(uint64_t now);
  void watch(uint64_t now, bool heard);
  bool read_channel();
  void handle(const Message& message);
  void handle_hello(const Hello& hello);
  void wait_for_link(uint64_t now);
  void connect();
  void await_connection();
  void handle_round(const Message& message);
  void start_size();
  void start_run();
  void check_finished();
  void finish_size(const SizeReport& peer);
  void send(const Message& message);
  void send(MessageType type);
  bool peer_sends() const;
  bool i_send() const;

  Endpoint& endpoint_;
  PeerChannel& channel_;
  const Options& options_;
  const bool client_;
  Table* const table_;
  const std::vector<uint64_t> sizes_;
  std::size_t current_ = 0;  ///< index in sizes_
  Phase phase_ = Phase::hello;
  std::unique_ptr<Receiver> receiver_;
  std::unique_ptr<Sender> sender_;
  Hello peer_hello_;
  bool peer_ready_ = false;  ///< its message came before this side was ready
  std::optional<uint64_t> peer_sent_;
  std::optional<SizeReport> peer_report_;
  std::vector<SizeReport> results_;
  bool stop_sent_ = false;
  bool sample_begun_ = false;
  bool sample_ended_ = false;
  bool reported_by_peer_ = false;
  bool greeted_ = false;
  bool progressed_ = false;  ///< since the last look at the clock
  std::string problem_;

  uint32_t turns_ = 0;
  uint64_t run_began_ns_ = 0;
  uint64_t link_deadline_ns_ = 0;
  uint64_t last_read_ns_ = 0;
  uint64_t last_beat_ns_ = 0;
  uint64_t last_heard_ns_ = 0;
  uint64_t last_progress_ns_ = 0;
};

}  // namespace uroce::perf
