#include "settings/table.h"

#include "settings/mtu_range.h"

namespace uroce::settings {

namespace {

template <auto... Path>
constexpr Row engine(const Setting& setting) {
  return {typed<Path...>(setting), access<&StackOptions::settings, Path...>(), access<Path...>()};
}
template <auto... Path>
constexpr Row stack(const Setting& setting) {
  return {typed<Path...>(setting), access<Path...>()};
}
/// The row, of which a port may have a value of its own.
template <auto Member>
constexpr Row port(Row row) {
  row.port = access<Member>();
  return row;
}
template <auto Member>
constexpr Row dcqcn(Setting setting) {
  setting.table = "dcqcn";
  return engine<&EngineSettings::congestion, &CongestionSettings::dcqcn, Member>(setting);
}
template <auto Member>
constexpr Row swift(Setting setting) {
  setting.table = "swift";
  return engine<&EngineSettings::congestion, &CongestionSettings::swift, Member>(setting);
}

using E = EngineSettings;
using S = StackOptions;
using P = PortSettings;
using D = DcqcnSettings;
using W = SwiftSettings;

constexpr double kMostMicros = 1e6;
constexpr double kMostMbps = 1e6;  // a terabit per second
constexpr double kMostDescriptors = 8192, kLeastDescriptors = 64;

constexpr Row kRows[] = {
    port<&P::mtu>(stack<&S::mtu>({.table = "device",
                                  .key = "mtu",
                                  .least = kLeastMtu,
                                  .most = kLargestMtu,
                                  .unit = "bytes",
                                  .zero = "the port's own",
                                  .option = "--port-mtu",
                                  .programs = kAllPrograms,
                                  .by_default = "the port's own, raised if the driver can",
                                  .example = "4200",
                                  .text = "Ethernet MTU of the port. A path MTU of 4096 needs about 4200."})),
    port<&P::vlan>(stack<&S::vlan>({.table = "device",
                                    .key = "vlan",
                                    .least = 1,
                                    .most = 4094,
                                    .zero = "untagged frames",
                                    .option = "--vlan",
                                    .programs = kAllPrograms,
                                    .by_default = "untagged",
                                    .example = "100",
                                    .text = "802.1Q VLAN id of all frames."})),
    port<&P::gateway>(stack<&S::gateway>({.table = "device",
                                          .key = "gateway",
                                          .option = "--gateway",
                                          .programs = kAllPrograms,
                                          .live = true,
                                          .values = "an address, or an array with one of each family",
                                          .by_default = "none",
                                          .example = "\"192.0.2.254\"",
                                          .text = "Next hop for addresses off the subnets."})),
    port<&P::allow>(
        stack<&S::allow>({.table = "device",
                          .key = "allow",
                          .option = "--allow",
                          .programs = kAllPrograms,
                          .values = "addresses and prefixes",
                          .by_default = "all peers",
                          .example = "[\"192.0.2.0/24\", \"2001:db8::/32\"]",
                          .text = "The peers that the device takes. Datagrams of others are dropped "
                                  "(`drop_peer_not_allowed`), and connecting to others fails with EACCES. The host's "
                                  "firewall does not see RoCE, so this stands in its place."})),

    stack<&S::idle>(
        {.table = "engines",
         .key = "idle",
         .option = "--idle",
         .programs = kAllPrograms,
         .text =
             "Behaviour of an engine without work. \"busy\" keeps polling, \"yield\" offers its CPU to other threads, "
             "\"sleep\" sleeps after a while. \"busy\" sends a lost last packet again soonest; the others give a peer "
             "40 ms more, because it may share its CPU as well."}),
    stack<&S::tx_mode>(
        {.table = "engines",
         .key = "tx_mode",
         .option = "--tx-mode",
         .programs = kPerf,
         .text =
             "How payload gets into frames. \"copy\" copies it; \"external\" sends it from the program's memory, if "
             "the port can; \"automatic\" chooses."}),
    stack<&S::icrc>(
        {.table = "engines",
         .key = "icrc",
         .option = "--icrc",
         .programs = kPerf,
         .values = "\"automatic\", or one that --version shows",
         .text = "How the CPU computes ICRCs. \"automatic\" takes the fastest that it has, of \"avx512\", \"avx2\", "
                 "\"pclmul\" (x86), \"pmull\" (ARM) and \"table\". `uroced --version` shows them.",
         .words = icrc_choices}),
    engine<&E::max_qp>({.table = "engines",
                        .key = "max_qp",
                        .least = 1,
                        .most = 1 << 18,  // 64 engines: QPNs for all
                        .text = "Queue pairs of one device, all clients together."}),
    engine<&E::max_mr>({.table = "engines",
                        .key = "max_mr",
                        .least = 1,
                        .most = 1 << 20,
                        .text = "Memory regions and windows of one device, all clients together."}),
    stack<&S::rx_descriptors>({.table = "engines",
                               .key = "rx_descriptors",
                               .least = kLeastDescriptors,
                               .most = kMostDescriptors,
                               .text = "Descriptors of each receive queue of a port."}),
    stack<&S::tx_descriptors>({.table = "engines",
                               .key = "tx_descriptors",
                               .least = kLeastDescriptors,
                               .most = kMostDescriptors,
                               .text = "Descriptors of each transmit queue of a port."}),
    port<&P::retransmission>(engine<&E::retransmission>(
        {.table = "engines",
         .key = "retransmission",
         .option = "--retransmission",
         .example = "\"go-back-n\"",
         .text =
             "Loss recovery of RC queue pairs that do not choose. \"go-back-n\" is as the specification defines it. "
             "\"auto\" sends only the missing packets again to uroce peers, and is Go-Back-N to others. "
             "\"selective\" is like \"auto\", but asks a peer for ever."})),
    port<&P::congestion_control>(engine<&E::congestion, &CongestionSettings::algorithm>(
        {.table = "engines",
         .key = "congestion_control",
         .option = "--congestion-control",
         .example = "\"dcqcn\"",
         .text = "Congestion control of RC queue pairs that do not choose. \"dcqcn\" goes by ECN marks, \"swift\" by "
                 "delay."})),
    port<&P::udp_source_ports>(engine<&E::udp_source_ports>(
        {.table = "engines",
         .key = "udp_source_ports",
         .least = 1,
         .most = 64,
         .example = "4",
         .text = "UDP source ports over which the packets of one RC queue pair are sprayed. They then take several "
                 "paths."})),
    engine<&E::congestion, &CongestionSettings::plb_rounds>(
        {.table = "engines",
         .key = "plb_rounds",
         .least = 1,
         .most = 1000,
         .zero = "never",
         .text =
             "Rounds of congestion in a row after which an idle RC queue pair takes another UDP source port. Switches "
             "then choose another path. A busy one takes it after three times as many, if its peer is one of uroce. "
             "Such queue pairs leave dead paths, too."}),
    engine<&E::parking_frames>({.table = "engines",
                                .key = "parking_frames",
                                .least = 0,
                                .most = 65535,
                                .text = "Most out-of-order frames that are kept, for each engine and device."}),
    stack<&S::receive_loss>(
        {.table = "engines",
         .key = "receive_loss",
         .least = 0,
         .most = 0.5,
         .option = "--receive-loss",
         .programs = kPerf,
         .text = "Chance that a received RoCE frame is dropped. It shows how programs do on a network that loses "
                 "packets."}),
    stack<&S::whole_frames>(
        {.table = "engines",
         .key = "whole_frames",
         .option = "--whole-frames",
         .programs = kPerf,
         .text =
             "Build, copy and check frames as for a wire even where they stay in this process. Such frames go between "
             "queue pairs of one device, or between the two devices of --demo and --back-to-back. receive_loss does "
             "the same."}),
    stack<&S::faults>({.table = "engines",
                       .key = "faults",
                       .option = "--faults",
                       .programs = kUroced | kPerf,
                       .values = "a path",
                       .by_default = "none",
                       .example = "\"/etc/uroce/faults\"",
                       .text = "File of fault rules: frames are lost, delayed or changed on purpose."}),
    stack<&S::record>({.table = "engines",
                       .key = "record",
                       .option = "--record",
                       .programs = kUroced | kPerf,
                       .values = "a path",
                       .by_default = "none",
                       .example = "\"/dev/shm\"",
                       .text = "Folder on tmpfs in which each engine records what it does, for `uroce replay`."}),
    stack<&S::record_mib>({.table = "engines",
                           .key = "record_mib",
                           .least = 1,
                           .most = 4096,
                           .unit = "MiB",
                           .programs = kUroced | kPerf,
                           .text = "Size of an engine's recording, which has the newest."}),

    dcqcn<&D::gain>({.key = "gain",
                     .least = 0.0001,
                     .most = 1,
                     .text = "g: weight of the newest report in the estimate of congestion."}),
    dcqcn<&D::alpha_timer_us>({.key = "alpha_timer_us",
                               .least = 1,
                               .most = kMostMicros,
                               .unit = "microseconds",
                               .text = "The estimate decays after this time without a report."}),
    dcqcn<&D::increase_timer_us>({.key = "increase_timer_us",
                                  .least = 1,
                                  .most = kMostMicros,
                                  .unit = "microseconds",
                                  .text = "The rate rises at this interval."}),
    dcqcn<&D::byte_counter_kib>({.key = "byte_counter_kib",
                                 .least = 1,
                                 .most = 1 << 20,
                                 .unit = "KiB",
                                 .text = "The rate also rises each time this much was sent."}),
    dcqcn<&D::fast_recovery>(
        {.key = "fast_recovery",
         .least = 1,
         .most = 100,
         .text = "First steps after a cut. Each goes half of the way back to the rate before it."}),
    dcqcn<&D::additive_mbps>({.key = "additive_mbps",
                              .least = 1,
                              .most = kMostMbps,
                              .unit = "Mb/s",
                              .text = "Step of the increase after those."}),
    dcqcn<&D::hyper_mbps>({.key = "hyper_mbps",
                           .least = 1,
                           .most = kMostMbps,
                           .unit = "Mb/s",
                           .text = "Step of the hyper increase that follows."}),
    dcqcn<&D::min_rate_mbps>(
        {.key = "min_rate_mbps", .least = 1, .most = kMostMbps, .unit = "Mb/s", .text = "Least rate."}),
    dcqcn<&D::line_rate_mbps>({.key = "line_rate_mbps",
                               .least = 0,
                               .most = kMostMbps,
                               .unit = "Mb/s",
                               .text = "First and highest rate. 0 takes the card's, or 100000 for software ports."}),
    dcqcn<&D::cnp_interval_us>(
        {.key = "cnp_interval_us",
         .least = 0,
         .most = kMostMicros,
         .unit = "microseconds",
         .text =
             "Least time between two reports (CNPs) of one queue pair. Receivers with any algorithm report. 0 sends "
             "none."}),

    swift<&W::base_target_us>({.key = "base_target_us",
                               .least = 1,
                               .most = kMostMicros,
                               .unit = "microseconds",
                               .text = "Target delay of one large flow."}),
    swift<&W::flow_scaling_us>(
        {.key = "flow_scaling_us",
         .least = 0,
         .most = kMostMicros,
         .unit = "microseconds",
         .text = "Most that is added to the target when windows are small because many flows share a link."}),
    swift<&W::flow_scaling_min>({.key = "flow_scaling_min",
                                 .least = 0.001,
                                 .most = 1,
                                 .unit = "packets",
                                 .text = "Window up to which all of that is added."}),
    swift<&W::flow_scaling_max>({.key = "flow_scaling_max",
                                 .least = 2,
                                 .most = 65536,
                                 .unit = "packets",
                                 .text = "Window from which nothing of it is added."}),
    swift<&W::additive_increase>({.key = "additive_increase",
                                  .least = 0.01,
                                  .most = 100,
                                  .unit = "packets",
                                  .text = "Growth of the window in a round trip."}),
    swift<&W::beta>({.key = "beta", .least = 0.01, .most = 1, .text = "Strength of a decrease."}),
    swift<&W::max_decrease>({.key = "max_decrease",
                             .least = 0.01,
                             .most = 0.99,
                             .text = "Largest share of the window that one decrease takes away."}),
    swift<&W::min_window>({.key = "min_window",
                           .least = 0.0001,
                           .most = 1,
                           .unit = "packets",
                           .text = "Least window; below 1, packets are paced."}),
    swift<&W::reset_after_timeouts>({.key = "reset_after_timeouts",
                                     .least = 1,
                                     .most = 100,
                                     .text = "Timeouts in a row that reset the window to min_window."}),
};

}  // namespace

std::span<const Row> rows() { return kRows; }

}  // namespace uroce::settings
