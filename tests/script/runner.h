// Runs one packet script against one engine whose peer is the script.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/script/packet_line.h"
#include "tests/script/script.h"
#include "tests/support/test_endpoint.h"

namespace uroce::test {

class Runner {
 public:
  /// `plain_path`: EngineConfig's. `records`: the engine is recorded, for records().
  explicit Runner(const Script& script, bool plain_path = true, bool records = false)
      : script_(script), plain_path_(plain_path), records_(records) {}

  /// Throws ScriptError at the first line that does not hold, and at the end when something is left unexpected.
  void run();
  /// Everything that happened, one line each, for the report of a failure.
  const std::vector<std::string>& trace() const { return trace_; }
  /// Then: what the engine has recorded.
  std::vector<std::byte> records() const { return endpoint_->records(); }

 private:
  using Command = void (Runner::*)(const ScriptLine&);
  static const std::map<std::string, Command>& commands();

  // Set-up.
  void do_set(const ScriptLine& line);
  void do_region(const ScriptLine& line);
  void connect();
  void to_rtr();
  void make_handles();
  void make_xrc_srqs(TestQp::Options& options);
  void make_raw_qps(TestQp::Options options);
  Gid group() const;
  void make_region(const std::string& name, std::size_t size, AccessFlags access, memory::PdId pd);

  // The engine in virtual time.
  void settle();
  void advance(const ScriptLine& line);
  void collect();
  void learn(const Frame& frame, uint32_t& epoch);
  void carry(const SentFrame& sent);

  // Actions.
  void do_inject(const ScriptLine& line);
  void do_post(const ScriptLine& line);
  void do_recv(const ScriptLine& line);
  void do_modify(const ScriptLine& line);
  void do_deregister(const ScriptLine& line);
  void do_poke(const ScriptLine& line);
  void do_arm(const ScriptLine& line);
  void do_room(const ScriptLine& line);
  void do_srq_limit(const ScriptLine& line);
  /// An XRC shared receive queue goes.
  void do_drop_srq(const ScriptLine& line);

  // Raw packets.
  void do_rule(const ScriptLine& line);
  void do_drop_rule(const ScriptLine& line);
  void post_frame(const ScriptLine& line);
  void inject_frame(const ScriptLine& line);

  // Expectations.
  void do_expect(const ScriptLine& line);
  void do_cqe(const ScriptLine& line);
  void do_recv_cqe(const ScriptLine& line);
  void do_event(const ScriptLine& line);
  void do_fired(const ScriptLine& line);
  void do_quiet(const ScriptLine& line);
  void do_memory(const ScriptLine& line);
  void do_state(const ScriptLine& line);
  void do_srq(const ScriptLine& line);
  void do_counter(const ScriptLine& line);
  /// The application takes no completions until `hold off`.
  void do_hold(const ScriptLine& line) { hold_completions_ = line.words.empty(); }
  /// With `set polls=named` the engine runs here alone; otherwise it has run already.
  void do_poll(const ScriptLine&);
  /// Attaches the QP to the multicast group, or detaches it.
  void do_join(const ScriptLine& line);
  void check_cqe(const ScriptLine& line, std::deque<queues::Cqe>& queue);
  std::string leftovers() const;

  std::vector<Sge> parse_sges(const Words& words, const std::string& text);
  TestRegion* region_at(uint64_t va, std::size_t length);
  std::byte* resolve(uint64_t va, std::size_t length);
  void note(const std::string& what);
  uint64_t setting(const std::string& key, uint64_t fallback) const;
  QpState state_named(const Words& words, const std::string& name) const;

  const Script& script_;
  const bool plain_path_;
  const bool records_;
  std::vector<std::string> trace_;
  std::map<std::string, std::string> settings_;
  struct RegionRequest {
    std::string name;
    std::size_t size;
    AccessFlags access;
    memory::PdId pd;
  };
  std::vector<RegionRequest> region_requests_;
  Symbols symbols_;
  Wiring wiring_;
  uint32_t local_epoch_ = 0;
  uint32_t peer_epoch_ = 0;
  Nanos now_{1'000'000};
  Nanos begin_{now_};
  bool connected_ = false;
  bool hold_completions_ = false;
  bool named_polls_ = false;

  std::unique_ptr<TestEndpoint> endpoint_;
  std::map<std::string, TestRegion*> regions_;
  TestCq* send_cq_ = nullptr;
  TestCq* recv_cq_ = nullptr;
  TestSrq* srq_ = nullptr;
  std::map<std::string, TestSrq*> xrc_srqs_;  // by the names that scripts have for them
  TestQp* qp_ = nullptr;
  std::map<std::string, TestQp*> raw_qps_;  // likewise
  std::map<std::string, uint64_t> rules_;   // numbers by name
  uint64_t last_rule_ = 0;
  ConnectOptions connection_;
  std::deque<SentFrame> frames_;
  std::deque<queues::Cqe> send_cqes_;
  std::deque<queues::Cqe> recv_cqes_;
  uint64_t next_send_wr_ = 1;
  uint64_t next_recv_wr_ = 1;
};

}  // namespace uroce::test
