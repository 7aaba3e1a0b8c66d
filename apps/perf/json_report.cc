#include "perf/json_report.h"

#include <fmt/format.h>

#include <uroce/version.h>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "perf/table.h"
#include "settings/names.h"

namespace uroce::perf {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// perftest's files have two decimals, and six for rates.
double rounded(double value, int digits) {
  const double unit = std::pow(10.0, digits);
  return std::round(value * unit) / unit;
}

std::string test_title(const Options& o) {
  const char* verb[] = {"RDMA_Write", "RDMA_Read", "Send", "Atomic", "Flush", "Raw_frame"};
  std::string title = verb[static_cast<int>(o.test.verb)];
  if (o.test.verb == Verb::atomic) title += fmt::format("_{}", atomic_name(o.atomic_type));
  if (o.bidirectional) title += "_Bidirectional";
  if (o.post_list > 1) title += "_Post_List";
  return title + (o.test.kind == Kind::bw ? "_BW_Test" : "_Latency_Test");
}

OrderedJson test_info(const Options& o, const Setting& s) {
  const bool reads = o.test.verb == Verb::read || o.test.verb == Verb::atomic || o.test.verb == Verb::flush;
  OrderedJson info{{"test", test_title(o)},  {"Dual_port", "OFF"},        {"Device", s.device.name},
                   {"Number_of_qps", o.qps}, {"Transport_type", "uroce"}, {"Connection_type", "RC"},
                   {"Using_SRQ", "OFF"},     {"TX_depth", o.tx_depth}};
  if (o.post_list > 1) info["Post_List"] = o.post_list;
  if (o.test.verb == Verb::send) info["RX_depth"] = o.rx_depth;
  if (o.test.kind == Kind::bw) info["CQ_Moderation"] = o.cq_mod;
  info["Mtu"] = s.path_mtu;
  info["Link_type"] = "Ethernet";
  info["GID_index"] = s.gid_index;
  info[reads ? "Outstand_reads" : "Max_inline_data"] = reads ? s.outs : o.inline_size;
  info["rdma_cm_QPs"] = o.rdma_cm ? "ON" : "OFF";
  info["Data_ex_method"] = o.back_to_back ? "in process" : "Ethernet";
  info["uroce_version"] = kVersion;
  info["driver"] = s.device.driver;
  info["engines"] = s.device.engines;
  info["embedded"] = s.embedded;
  info["idle"] = settings::name_in(settings::kIdleNames, o.stack.idle);
  info["back_to_back"] = o.back_to_back;
  info["verify"] = o.verify;
  info["events"] = o.events;
  info["retransmission"] = settings::name(o.retransmission);
  info["congestion_control"] = settings::name(o.congestion_control);
  info["qp_timeout"] = o.qp_timeout;
  info["duration_s"] = o.duration_s;
  info["margin_s"] = o.margin_s;
  info["eal_args"] = o.eal;
  return info;
}

OrderedJson one_result(const Options& o, const SizeReport& r) {
  OrderedJson result{{"MsgSize", r.size}, {"n_iterations", r.iterations}};
  if (o.test.kind == Kind::bw) {
    result["BW_peak"] = rounded(bandwidth(o, r.size, r.peak_rate), 6);
    result["BW_average"] = rounded(bandwidth(o, r.size, r.rate()), 6);
    result["MsgRate"] = rounded(r.rate() * 1e-6, 6);
    result["unit"] = o.report_gbits ? "Gb/sec" : "MiB/sec";
  } else {
    const LatencyReport& l = r.latency;
    const std::pair<const char*, double> members[] = {
        {"t_min", l.min},     {"t_max", l.max},         {"t_typical", l.typical},   {"t_avg", l.average},
        {"t_stdev", l.stdev}, {"percentile_99", l.p99}, {"percentile_99.9", l.p999}};
    for (const auto& [name, value] : members) result[name] = rounded(value, 3);
    result["unit"] = "usec";
  }
  result["seconds"] = r.seconds;
  if (o.verify) result["verified_messages"] = r.verified;
  return result;
}

}  // namespace

std::string json_report(const Options& options, const Setting& setting, const std::vector<SizeReport>& results) {
  OrderedJson report{{"test_info", test_info(options, setting)}};
  report["results"] = results.empty() ? OrderedJson::object() : one_result(options, results.back());
  report["runs"] = OrderedJson::array();
  for (const SizeReport& r : results) report["runs"].push_back(one_result(options, r));
  return report.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

Result<void> write_file(const std::string& name, const std::string& text) {
  std::FILE* file = name == "-" ? stdout : std::fopen(name.c_str(), "w");
  const auto refuse = [&] {
    return fail(errno, fmt::format("cannot write the JSON report to {}: {}", name, std::strerror(errno)));
  };
  if (file == nullptr) return refuse();
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  if (file != stdout && std::fclose(file) != 0) return refuse();
  if (!written) return refuse();
  return {};
}

}  // namespace uroce::perf
