#include "perf/test_side.h"

#include <fmt/format.h>

#include <utility>

#include "perf/clock.h"
#include "perf/initiator.h"
#include "perf/ping_pong.h"
#include "perf/rounds.h"

namespace uroce::perf {
namespace {

constexpr uint32_t kControlInterval = 16;  ///< steps of the measured loop between checks of clock and channel

bool is_ping_pong(const Options& o) {
  return o.test.kind == Kind::lat && (o.test.verb == Verb::write || o.test.verb == Verb::send);
}

}  // namespace

TestSide::TestSide(Endpoint& endpoint, PeerChannel& channel, const Options& options, bool client, Table* table)
    : endpoint_(endpoint),
      channel_(channel),
      options_(options),
      client_(client),
      table_(table),
      sizes_(options.sizes()) {
  last_heard_ns_ = last_beat_ns_ = now_ns();
}

bool TestSide::i_send() const { return client_ || options_.bidirectional || is_ping_pong(options_); }
bool TestSide::peer_sends() const { return !client_ || options_.bidirectional || is_ping_pong(options_); }

Step TestSide::step() {
  if (phase_ == Phase::finished) return Step::idle;
  if (!greeted_) {
    greeted_ = true;
    Message hello;
    hello.type = MessageType::hello;
    hello.hello = endpoint_.hello();
    send(hello);
  }
  Step did = Step::idle;
  if (phase_ == Phase::run) {
    did = run_step();
    progressed_ |= did == Step::progress;
    if (phase_ == Phase::finished) return did;
    if (!resting() && ++turns_ % kControlInterval != 0) return did;
  }
  if (std::exchange(progressed_, false)) last_progress_ns_ = now_ns();
  return step_control() ? Step::progress : did;
}

Step TestSide::run_step() {
  Step did = Step::idle;
  if (receiver_ && !is_ping_pong(options_)) {
    did = receiver_->step();
    if (did == Step::failed) return give_up(receiver_->problem()), did;
  }
  if (sender_) {
    const Step sent = sender_->step();
    if (sent == Step::failed) return give_up(sender_->problem()), sent;
    if (sent == Step::progress) did = sent;
  }
  return did;
}

void TestSide::handle(const Message& m) {
  const auto out_of_turn = [&] {
    give_up("the peer's messages come in the wrong order; are both sides of the same release?");
  };
  switch (m.type) {
    case MessageType::beat: return;
    case MessageType::error:
      reported_by_peer_ = true;
      problem_ = fmt::format("the other side failed: {}", m.text);
      phase_ = Phase::finished;
      return;
    case MessageType::hello: return phase_ == Phase::hello ? handle_hello(m.hello) : out_of_turn();
    case MessageType::ready:
      peer_ready_ = true;
      if (phase_ == Phase::link || phase_ == Phase::connect) return;
      return phase_ == Phase::ready ? start_size() : out_of_turn();
    case MessageType::go: return phase_ == Phase::go && m.size == sizes_[current_] ? start_run() : out_of_turn();
    case MessageType::stop:
      if (phase_ != Phase::run || !peer_sends() || peer_sent_) return out_of_turn();
      peer_sent_ = m.count;
      if (sender_) sender_->peer_stopped(m.count);
      if (sender_ && !client_ && options_.timed()) {
        if (!sample_begun_) sender_->begin_sample();
        sender_->end_sample();
        sample_begun_ = sample_ended_ = true;
        sender_->stop();
      }
      return;
    case MessageType::check:
    case MessageType::fill: return phase_ == Phase::run && peer_sends() ? handle_round(m) : out_of_turn();
    case MessageType::checked:
    case MessageType::filled: return sender_ ? sender_->granted() : out_of_turn();
    case MessageType::done:
      if ((phase_ != Phase::run && phase_ != Phase::done) || peer_report_) return out_of_turn();
      peer_report_ = m.report;
      if (phase_ == Phase::done) finish_size(*peer_report_);
      return;
  }
}

void TestSide::handle_hello(const Hello& hello) {
  if (auto differs = difference(SharedParameters::of(options_), hello.parameters)) return give_up(*differs);
  if (options_.test.verb != Verb::send) {
    const Plan plan = plan_for(options_, sizes_.back(), hello.remote_bytes);
    if (plan.stride * plan.ring > hello.remote_bytes) {
      return give_up("the peer exposes less memory than the test needs; are both sides of the same release?");
    }
  }
  peer_hello_ = hello;
  // A virtual link comes up some time after both ends exist.
  link_deadline_ns_ = now_ns() + to_ns(options_.peer_timeout_s);
  phase_ = Phase::link;
}

void TestSide::wait_for_link(uint64_t now) {
  // After the deadline, connecting fails with the device's own error.
  if (endpoint_.link_up() || now > link_deadline_ns_) connect();
}

void TestSide::connect() {
  if (auto begun = endpoint_.connect(peer_hello_); !begun) return give_up(begun.error().text);
  last_heard_ns_ = now_ns();
  phase_ = Phase::connect;
  await_connection();
}

void TestSide::await_connection() {
  const auto connected = endpoint_.connected();
  if (!connected) return give_up(connected.error().text);
  if (!*connected) return;
  if (options_.test.verb == Verb::send && peer_sends()) {
    receiver_ = std::make_unique<Receiver>(endpoint_, options_, client_ ? 1 : 0);
  }
  if (table_ != nullptr) table_->connected(endpoint_);
  phase_ = Phase::ready;
  send(MessageType::ready);
  if (peer_ready_ && phase_ == Phase::ready) start_size();
}

/// Prepares the next size and tells the peer.
void TestSide::start_size() {
  const uint64_t size = sizes_[current_];
  const Plan plan = plan_for(options_, size, endpoint_.peer().remote_bytes);
  sender_.reset();
  if (receiver_ && !receiver_->begin(size)) return give_up(receiver_->problem());
  if (options_.test.verb == Verb::atomic) rounds::start_words(endpoint_, options_, client_ ? 0 : 1);
  if (is_ping_pong(options_)) {
    sender_ = std::make_unique<PingPong>(endpoint_, options_, plan, client_, receiver_.get());
  } else if (i_send()) {
    sender_ = std::make_unique<Initiator>(endpoint_, options_, plan, client_ ? 0 : 1);
  }
  peer_sent_.reset();
  peer_report_.reset();
  stop_sent_ = sample_begun_ = sample_ended_ = false;
  phase_ = Phase::go;
  Message go;
  go.type = MessageType::go;
  go.size = size;
  send(go);
}

void TestSide::start_run() {
  phase_ = Phase::run;
  run_began_ns_ = last_progress_ns_ = now_ns();
  if (table_ != nullptr) table_->begin_progress();
  if (sender_) sender_->start();
}

/// The peer asks this side to check its writes, or to write new patterns for it to read.
void TestSide::handle_round(const Message& m) {
  if (!options_.verify || m.round.size != sizes_[current_])
    return give_up("the peer asks for a check that was not agreed; are both sides of the same release?");
  const uint32_t peer = client_ ? 1 : 0;
  std::optional<std::string> wrong;
  if (m.type == MessageType::fill) {
    wrong = rounds::fill_for_reads(endpoint_, options_, m.round, 1 - peer);
  } else if (options_.test.verb == Verb::atomic) {
    wrong = rounds::check_words(endpoint_, options_, m.round, 1 - peer);
  } else {
    wrong = rounds::check_writes(endpoint_, options_, m.round, peer);
  }
  if (wrong) return give_up(*wrong);
  send(m.type == MessageType::fill ? MessageType::filled : MessageType::checked);
}

/// Ends a size when nothing is left to send, receive or check.
void TestSide::check_finished() {
  if (sender_) {
    if (options_.verify) {
      if (auto request = sender_->request()) send(*request);
    }
    if (!sender_->done()) return;
    if (!stop_sent_) {
      stop_sent_ = true;
      Message stop;
      stop.type = MessageType::stop;
      stop.count = sender_->sent();
      send(stop);
    }
  }
  if (peer_sends() && !peer_sent_) return;
  if (receiver_ && receiver_->received() < *peer_sent_) return;
  if (phase_ == Phase::finished) return;
  Message done;
  done.type = MessageType::done;
  if (sender_) done.report = sender_->report();
  done.report.size = sizes_[current_];
  if (receiver_) done.report.verified += receiver_->verified();
  results_.push_back(done.report);
  phase_ = Phase::done;
  send(done);
  if (table_ != nullptr) table_->end_progress();
  if (peer_report_) finish_size(*peer_report_);
}

/// Both reports have arrived: ends the size.
void TestSide::finish_size(const SizeReport& peer) {
  if (phase_ == Phase::finished) return;
  SizeReport& mine = results_.back();
  const uint64_t verified = mine.verified + peer.verified;
  if (options_.bidirectional) {
    mine = sum_of_directions(mine, peer);
  } else if (!client_) {
    mine = peer;
  }
  mine.verified = verified;
  if (table_ != nullptr) table_->result(mine);
  if (++current_ < sizes_.size()) return start_size();
  phase_ = Phase::finished;
  channel_.flush();
}

void TestSide::give_up(const std::string& why) {
  if (phase_ == Phase::finished) return;
  problem_ = why;
  phase_ = Phase::finished;
  if (table_ != nullptr) table_->end_progress();
  Message error;
  error.type = MessageType::error;
  error.text = why;
  if (channel_.send(error)) channel_.flush();
}

bool TestSide::arm() {
  bool armed = endpoint_.send_cq().arm().has_value();
  if (endpoint_.has_recv_cq()) armed = endpoint_.recv_cq().arm().has_value() && armed;
  return armed;
}

void TestSide::send(const Message& message) {
  if (phase_ == Phase::finished) return;
  auto sent = channel_.send(message);
  if (sent) return;
  // The peer's last message may still be waiting. It says more than a broken connection.
  if (auto last = channel_.receive(); last && *last && (*last)->type == MessageType::error) return handle(**last);
  problem_ = sent.error().text;
  phase_ = Phase::finished;
}

void TestSide::send(MessageType type) {
  Message m;
  m.type = type;
  send(m);
}

}  // namespace uroce::perf
