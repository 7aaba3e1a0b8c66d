// Two hosts whose applications connect, answer, disconnect and give up at random, over a link that loses, repeats,
// reorders and delays MADs, in virtual time. Each event of the connection managers is checked when it comes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cm/ib/ib_cm.h"
#include "tests/sim/network.h"

namespace uroce::test {

struct CmWorldOptions {
  uint64_t seed = 1;
  uint32_t connections = 20;
  bool calm = false;    ///< everything is accepted and stays up until all have been compared
  double datagram = 0;  ///< share of SIDR requests
  uint8_t retries = 15;
  uint8_t cm_timeout = 8;   ///< code: 1 ms
  uint8_t ack_timeout = 4;  ///< code: 65.5 us
  uint32_t backlog = 64;
  Nanos delay{20'000};        ///< of the link
  Nanos thinking{2'000'000};  ///< longest time in which an application answers
  Nanos lag{0};               ///< by which hosts come late to look at their timers
  Nanos spread{50'000'000};   ///< within which all connections begin
};

class CmWorld {
 public:
  CmWorld(const CmWorldOptions& options, FaultPolicy& faults);
  ~CmWorld();

  /// Runs until every connection has ended and been destroyed. Returns what does not hold; empty when all does.
  std::string run();
  uint64_t mads() const { return mads_; }
  uint64_t told(cm::CmEventKind kind) const { return told_[static_cast<std::size_t>(kind)]; }
  void set_trace(bool on) { trace_ = on; }

 private:
  enum class Phase : uint8_t { asking, asked, answered, replied, up, closing, ended, rested, gone };
  /// One application's view of one of its connections.
  struct Connection {
    std::size_t host = 0;
    uint32_t id = 0;
    uint32_t number = 0;  ///< the same at both ends, in the private data
    bool active = false;
    bool ud = false;
    Phase phase{};
    bool was_up = false;
    bool unreachable = false;
    std::optional<Nanos> due{};  ///< by when the next event must have come
    Nanos since{0};              ///< when it began to wait for that
    Nanos latest{0};             ///< as `due` last was
  };
  struct Side;
  struct Happening {
    Nanos time;
    uint64_t order;
    std::function<void()> what;
    bool operator>(const Happening& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  void at(Nanos time, std::function<void()> what);
  /// Sometimes at once, within the event that led to it.
  void soon(std::function<void()> what);
  void violate(const Connection* c, const std::string& what);
  void expect_call(const Connection& c, const char* call, const Result<void>& result);
  void advance(Nanos until);
  void send(std::size_t host, const cm::CmPath& path, const cm::Mad& mad);

  void begin(uint32_t number);
  void on_event(std::size_t host, const cm::CmMessage& message);
  void on_request(std::size_t host, const cm::CmMessage& message);
  void on_end(Connection& c);
  void answer(Connection& c);
  void accept(Connection& c);
  void reject(Connection& c);
  void finish_reply(Connection& c);
  void go_up(Connection& c);
  void disconnect(Connection& c);
  void destroy(Connection& c);
  void expect_event(Connection& c);
  /// Between two repetitions, as the messages' timeouts say.
  Nanos interval() const;
  Nanos patience() const;
  void compare_ends();
  void check_end();

  CmWorldOptions options_;
  FaultPolicy& faults_;
  Random random_;
  std::vector<std::unique_ptr<Side>> hosts_;
  std::map<std::pair<std::size_t, uint32_t>, Connection> connections_;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
  Nanos now_{1'000'000};
  uint64_t order_ = 0;
  uint64_t mads_ = 0;
  uint64_t told_[8] = {};
  bool trace_ = false;
  std::string violation_;
};

}  // namespace uroce::test
