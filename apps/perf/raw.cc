#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "perf/interrupt.h"
#include "perf/peer_channel.h"
#include "perf/run.h"
#include "perf/statistics.h"
#include "perf/table.h"
#include "pmd_glue/raw_latency.h"
#include "pmd_glue/raw_rate.h"

namespace uroce::perf {
namespace {

using std::chrono::duration_cast;
using std::chrono::nanoseconds;

constexpr double kDefaultDurationSeconds = 1;
/// Time for both EALs and the link to come up, and for the half second that a receiver waits for more frames.
constexpr double kSlackSeconds = 30;
/// After ^C the other side needs time to notice, and to report its count.
constexpr double kGraceSeconds = 5;

nanoseconds to_nanoseconds(double seconds) {
  return duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
}

bool wait_a_moment() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return !interrupted();
}

/// The next message other than a beat, if one has arrived. Errors: the peer's.
Result<std::optional<Message>> look_for_message(PeerChannel& channel) {
  auto message = channel.receive();
  if (!message || !*message || (*message)->type == MessageType::beat) {
    return message ? Result<std::optional<Message>>() : message;
  }
  if ((*message)->type == MessageType::error) {
    return fail(EIO, fmt::format("the other side failed: {}", (*message)->text));
  }
  return message;
}

/// The next message other than a beat, within `timeout_s`, and within `grace_s` after an interruption. Errors: the
/// peer's, ETIMEDOUT, EINTR.
Result<Message> next_message(PeerChannel& channel, double timeout_s, double grace_s) {
  using Clock = std::chrono::steady_clock;
  auto deadline = Clock::now() + to_nanoseconds(timeout_s);
  bool cut_short = false;
  do {
    auto message = look_for_message(channel);
    if (!message) return std::unexpected(message.error());
    if (*message) return std::move(**message);
    if (!wait_a_moment() && !cut_short) {
      cut_short = true;
      deadline = std::min(deadline, Clock::now() + to_nanoseconds(grace_s));
    }
  } while (Clock::now() < deadline);
  if (cut_short) return fail(EINTR, "interrupted");
  return fail(ETIMEDOUT, fmt::format("the peer sent nothing for {:.0f} s; is it still running?", timeout_s));
}

glue::RawOptions raw_options(const Options& o, glue::RawRole role) {
  glue::RawOptions raw;
  raw.role = role;
  raw.frame_bytes = static_cast<uint32_t>(o.size);
  raw.duration = to_nanoseconds(o.timed() ? o.duration_s : kDefaultDurationSeconds);
  raw.mtu = o.stack.mtu;
  raw.back_to_back = o.back_to_back;
  raw.busy = o.stack.idle == IdlePolicy::busy;
  raw.rx_descriptors = o.stack.rx_descriptors;
  raw.tx_descriptors = o.stack.tx_descriptors;
  return raw;
}

bool measures_latency(const Options& o) { return o.test.kind == Kind::lat; }

void print_titles(const Options& o) {
  const auto title =
      measures_latency(o)
          ? fmt::format("Raw frame Latency Test (frames of {} bytes, no transport, half a round trip)", o.size)
          : fmt::format("Raw frame BW Test (frames of {} bytes, no transport, as received)", o.size);
  fmt::print("{}\n                    {}\n{}\n{}", kRule, title, kRule, column_titles(o));
  std::fflush(stdout);
}

Result<SizeReport> measure_rate(const Options& o, const glue::RawOptions& raw, glue::RawFrames* frames) {
  const auto rate = glue::run_raw(o.eal, raw, frames);
  if (!rate) return std::unexpected(rate.error());
  SizeReport report;
  report.size = rate->frame_bytes;
  report.iterations = rate->frames;
  report.seconds = rate->seconds;
  return report;
}

Result<SizeReport> measure_latency(const Options& o, const glue::RawOptions& raw) {
  Histogram histogram;
  const auto take = [&](nanoseconds time) { histogram.add(static_cast<uint64_t>(time.count())); };
  const auto latency = glue::run_raw_latency(o.eal, raw, o.timed() ? 0 : o.iters, take);
  if (!latency) return std::unexpected(latency.error());
  SizeReport report;
  report.size = raw.frame_bytes;
  report.iterations = latency->round_trips;
  report.seconds = latency->seconds;
  report.latency = summarize(histogram, 2);
  return report;
}

/// Ends early when `stop` returns true. The titles stand over the line of the result from when frames pass.
Result<SizeReport> measure(const Options& o, glue::RawRole role, std::function<bool()> stop, glue::RawFrames* frames) {
  glue::RawOptions raw = raw_options(o, role);
  raw.stop = std::move(stop);
  raw.started = [&o] { print_titles(o); };
  return measures_latency(o) ? measure_latency(o, raw) : measure_rate(o, raw, frames);
}

/// Agrees on the parameters with the other side, runs, and takes the report of the side that has it: the receiver of
/// frames, or the sender of a ping-pong.
Result<SizeReport> measure_with_peer(const Options& o, glue::RawFrames* frames) {
  Table table(o, o.is_client());
  auto channel = [&]() -> Result<std::unique_ptr<PeerChannel>> {
    if (o.is_client()) return connect_channel(o.host, o.port, o.connect_timeout_s, wait_a_moment);
    auto listener = Listener::open(o.port);
    if (!listener) return std::unexpected(listener.error());
    table.waiting();
    return listener->accept(o.connect_timeout_s, wait_a_moment);
  }();
  if (!channel) return std::unexpected(channel.error());
  Message hello;
  hello.type = MessageType::hello;
  hello.hello.parameters = SharedParameters::of(o);
  hello.hello.port_mtu = mtu_bytes(Mtu::mtu256);  // has no meaning here
  if (auto sent = (*channel)->send(hello); !sent) return std::unexpected(sent.error());
  const auto give_up = [&](const Error& error) {
    Message m;
    m.type = MessageType::error;
    m.text = error.text;
    if ((*channel)->send(m)) (*channel)->flush();
    return std::unexpected(error);
  };
  const auto peer = next_message(**channel, o.peer_timeout_s, 0);
  if (!peer) return std::unexpected(peer.error());
  if (auto differs = difference(hello.hello.parameters, peer->hello.parameters)) return give_up({EINVAL, *differs});

  // A peer that ends early reports it, or closes the connection.
  std::optional<Result<Message>> word;
  const auto stop = [&] {
    if (interrupted() || word) return true;
    auto message = look_for_message(**channel);
    if (!message) {
      word = std::unexpected(message.error());
    } else if (*message) {
      word = std::move(**message);
    }
    return word.has_value();
  };
  auto report = measure(o, o.is_client() ? glue::RawRole::send : glue::RawRole::receive, stop, frames);
  if (word && !*word) return std::unexpected(word->error());
  if (!report) return give_up(report.error());
  if (o.is_client() != measures_latency(o)) {
    if (!word && measures_latency(o)) {
      // The other side goes on until it hears of an interruption here.
      Message ended;
      ended.type = MessageType::stop;
      if (auto sent = (*channel)->send(ended); !sent) return std::unexpected(sent.error());
    }
    if (!word) word = next_message(**channel, o.duration_s + kSlackSeconds, kGraceSeconds);
    if (!*word) return std::unexpected(word->error());
    return (*word)->report;
  }
  Message done;
  done.type = MessageType::done;
  done.report = *report;
  if (auto sent = (*channel)->send(done); !sent) return std::unexpected(sent.error());
  (*channel)->flush();
  return report;
}

}  // namespace

Result<Outcome> run_raw_test(const Options& o, glue::RawFrames* frames) {
  catch_interrupts();
  const auto report =
      o.back_to_back ? measure(o, glue::RawRole::both, interrupted, frames) : measure_with_peer(o, frames);
  if (!report) return std::unexpected(report.error());
  fmt::print("{}{}\n", result_line(o, *report), kRule);
  if (interrupted()) return fail(EINTR, "interrupted; the line above shows the frames counted until then");
  return Outcome{{*report}, {}};
}

}  // namespace uroce::perf
