#include "perf/table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace uroce::perf {
namespace {

constexpr double kMiB = 1 << 20;
constexpr std::size_t kMostAddresses = 8;  ///< QPs whose addresses are printed

std::string verb_title(const Options& o) {
  switch (o.test.verb) {
    case Verb::write: return "RDMA_Write";
    case Verb::read: return "RDMA_Read";
    case Verb::send: return "Send";
    case Verb::atomic: return fmt::format("Atomic {}", atomic_name(o.atomic_type));
    case Verb::flush: return "RDMA_Write and Flush";
    case Verb::raw: return "Raw frame";
  }
  return {};
}

std::string qp_line(const char* side, const QpAddress& qp, const Hello& hello, Verb verb) {
  std::string line = fmt::format(" {} address: LID 0000 QPN {:#06x} PSN {:#08x}", side, qp.qpn, qp.psn);
  if (verb == Verb::read) line += fmt::format(" OUT {:#04x}", hello.reads);
  if (verb != Verb::send) line += fmt::format(" RKey {:#010x} VAddr {:#018x}", hello.rkey, hello.remote_base);
  return line + "\n";
}

std::string side_lines(const char* side, const Hello& hello, Verb verb) {
  std::string lines;
  for (std::size_t i = 0; i < std::min(hello.qps.size(), kMostAddresses); ++i) {
    lines += qp_line(side, hello.qps[i], hello, verb);
  }
  if (hello.qps.size() > kMostAddresses) lines += fmt::format(" and {} more QPs\n", hello.qps.size() - kMostAddresses);
  return lines + fmt::format(" GID: {} ({})\n", to_text(hello.gid), hello.device);
}

}  // namespace

double bandwidth(const Options& o, uint64_t size, double messages_per_second) {
  const double bytes = static_cast<double>(size) * messages_per_second;
  return o.report_gbits ? bytes * 8e-9 : bytes / kMiB;
}

std::string test_header(const Options& o, const Endpoint& endpoint, bool client) {
  const bool bw = o.test.kind == Kind::bw;
  const bool sends = client || o.bidirectional;
  std::string t = kRule + "\n                    " + verb_title(o);
  t += fmt::format(" {}{}{}Test\n", o.bidirectional ? "Bidirectional " : "", o.post_list > 1 ? "Post List " : "",
                   bw ? "BW " : "Latency ");
  if (o.events) t += fmt::format(" Test with events on {}\n", endpoint.info().name);
  t +=
      fmt::format(" Dual-port       : OFF\t\tDevice         : {} ({})\n", endpoint.info().name, endpoint.info().driver);
  t += fmt::format(" Number of qps   : {}\t\tTransport type : uroce\n", o.qps);
  t += " Connection type : RC\t\tUsing SRQ      : OFF\n";
  if (sends) t += fmt::format(" TX depth        : {}\n", o.tx_depth);
  if (o.post_list > 1) t += fmt::format(" Post List       : {}\n", o.post_list);
  if (o.test.verb == Verb::send && (!client || o.bidirectional))
    t += fmt::format(" RX depth        : {}\n", o.rx_depth);
  if (bw) t += fmt::format(" CQ Moderation   : {}\n", o.cq_mod);
  t += fmt::format(" Mtu             : {}[B]\n Link type       : Ethernet\n", endpoint.path_mtu());
  t += fmt::format(" GID index       : {}\n", endpoint.gid_index());
  if (o.test.verb == Verb::read || o.test.verb == Verb::atomic || o.test.verb == Verb::flush) {
    t += fmt::format(" Outstand reads  : {}\n", endpoint.outs());
  } else {
    t += fmt::format(" Max inline data : {}[B]\n", o.inline_size);
  }
  if (o.verify) t += " Verify          : every byte (rates include the checking)\n";
  return t +
         fmt::format(" rdma_cm QPs\t : {}\n Data ex. method : {}\n", o.rdma_cm ? "ON" : "OFF",
                     o.back_to_back ? "in process" : "Ethernet") +
         kRule + "\n";
}

std::string column_titles(const Options& o) {
  if (o.test.kind == Kind::lat) {
    return " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% "
           "percentile[usec]   99.9% percentile[usec] \n";
  }
  const char* unit = o.report_gbits ? "Gb/sec" : "MiB/sec";
  return fmt::format(" #bytes     #iterations    BW peak[{0}]    BW average[{0}]   MsgRate[Mpps]\n", unit);
}

std::string result_line(const Options& o, const SizeReport& r) {
  if (o.test.kind == Kind::lat) {
    const LatencyReport& l = r.latency;
    return fmt::format(
        " {:<7} {:<10}     {:<7.2f}        {:<7.2f}      {:<7.2f}            {:<7.2f}        {:<7.2f}         {:<7.2f}"
        "                {:<7.2f}\n",
        r.size, r.iterations, l.min, l.max, l.typical, l.average, l.stdev, l.p99, l.p999);
  }
  const double average = bandwidth(o, r.size, r.rate());
  const double peak = bandwidth(o, r.size, r.peak_rate);
  // As in perftest, small numbers of Gb/s have more digits.
  const int digits = o.report_gbits && average < 0.1 ? 6 : 2;
  return fmt::format(" {:<7}    {:<10}       {:<7.{}f}            {:<7.{}f}              {:<7.6f}\n", r.size,
                     r.iterations, peak, digits, average, digits, r.rate() * 1e-6);
}

Table::Table(const Options& options, bool client)
    : options_(options),
      client_(client),
      shows_progress_(options.progress || ::isatty(STDERR_FILENO) == 1),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

void Table::waiting() {
  const std::string stars(36, '*');
  fmt::print("\n{}\n* Waiting for client to connect... *\n{}\n", stars, stars);
  std::fflush(stdout);
}

void Table::connected(const Endpoint& endpoint) {
  fmt::print("{}{}{}{}\n{}", test_header(options_, endpoint, client_),
             side_lines("local", endpoint.hello(), options_.test.verb),
             side_lines("remote", endpoint.peer(), options_.test.verb), kRule, column_titles(options_));
  std::fflush(stdout);
}

void Table::result(const SizeReport& report) {
  verified_ += report.verified;
  fmt::print("{}", result_line(options_, report));
  std::fflush(stdout);
}

void Table::footer() {
  fmt::print("{}\n", kRule);
  if (options_.verify) fmt::print(" Verified: every byte of {} messages is right.\n", verified_);
  std::fflush(stdout);
}

void Table::begin_progress() {
  next_s_ = 2;
  last_s_ = 0;
  last_messages_ = 0;
}

void Table::progress(double elapsed_s, uint64_t messages) {
  if (!shows_progress_ || elapsed_s < next_s_) return;
  const double rate = static_cast<double>(messages - last_messages_) / (elapsed_s - last_s_);
  last_s_ = elapsed_s;
  last_messages_ = messages;
  next_s_ = elapsed_s + 1;
  const double total = static_cast<double>(options_.iters) * options_.qps;
  const double part = options_.timed() ? elapsed_s / options_.duration_s : static_cast<double>(messages) / total;
  fmt::print(stderr, "{}{:6.1f} s  {:5.1f} %  {} messages  {:.3f} Mpps{}", terminal_ ? "\r" : "", elapsed_s,
             std::min(part, 1.0) * 100, messages, rate * 1e-6, terminal_ ? "\x1b[K" : "\n");
  std::fflush(stderr);
  line_open_ = terminal_;
}

void Table::end_progress() {
  if (!line_open_) return;
  line_open_ = false;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

}  // namespace uroce::perf
