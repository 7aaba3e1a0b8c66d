// Settings of congestion control for RC queue pairs. Ranges are in config/uroced.toml; a value outside is refused when
// the stack starts.
#pragma once

#include <cstdint>

#include <uroce/types.h>

namespace uroce {

/// DCQCN: the sender's rate, cut when the peer reports ECN marks. Defaults as published (Zhu et al., "Congestion
/// Control for Large-Scale RDMA Deployments", SIGCOMM 2015: figure 14 and section 5). The step of hyper increase and
/// the least rate are those of its authors' simulator.
struct DcqcnSettings {
  double gain = 1.0 / 256;            ///< g: weight of the newest report in alpha, the estimate of congestion
  uint32_t alpha_timer_us = 55;       ///< alpha decays after this time without a report
  uint32_t increase_timer_us = 55;    ///< T: the rate rises this often
  uint32_t byte_counter_kib = 10240;  ///< B: the rate also rises each time this much was sent
  uint32_t fast_recovery = 5;         ///< F: first steps, each half of the way back to the rate before the cut
  uint32_t additive_mbps = 40;        ///< R_AI: step of the additive increase that follows
  uint32_t hyper_mbps = 400;          ///< R_HAI: step once both the timer and the counter have passed F
  uint32_t min_rate_mbps = 100;       ///< least rate
  uint32_t line_rate_mbps = 0;        ///< first and highest rate; 0: the port's, or 100000 when it reports none
  uint32_t cnp_interval_us = 50;      ///< least time between two CNPs of one queue pair; 0 sends none
};

/// Swift: the sender's window, from the delay that its packets see. Defaults as published (Kumar et al., "Swift: Delay
/// is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020); the range of flow scaling is twice
/// the base target.
struct SwiftSettings {
  double base_target_us = 25;   ///< target delay of one large flow
  double flow_scaling_us = 50;  ///< most that is added to the target for small windows, as many flows share a link then
  double flow_scaling_min = 0.1;      ///< window in packets up to which all of it is added
  double flow_scaling_max = 100;      ///< window in packets from which nothing is added
  double additive_increase = 1.0;     ///< ai: packets per round trip
  double beta = 0.8;                  ///< strength of the decrease
  double max_decrease = 0.5;          ///< max_mdf: largest share of the window that one decrease takes away
  double min_window = 0.001;          ///< least window in packets; below 1 packets are paced
  uint32_t reset_after_timeouts = 5;  ///< timeouts in a row that reset the window to min_window
};

/// The device's algorithm, and the parameters of all.
struct CongestionSettings {
  CongestionAlgorithm algorithm = CongestionAlgorithm::none;  ///< for queue pairs that do not choose
  uint32_t plb_rounds = 0;  ///< rounds of congestion in a row that make a queue pair leave its path; 0: no number does
  DcqcnSettings dcqcn{};
  SwiftSettings swift{};
};

}  // namespace uroce
