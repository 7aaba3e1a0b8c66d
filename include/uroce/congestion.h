// What congestion control of RC queue pairs can be told.
#pragma once

#include <cstdint>

#include <uroce/types.h>

namespace uroce {

/// DCQCN: a rate, cut when the peer reports ECN marks. Defaults as published (Zhu et al., "Congestion Control for
/// Large-Scale RDMA Deployments", SIGCOMM 2015: figure 14 and section 5), the rates of hyper increase and the least one
/// as its authors' simulator scales them.
struct DcqcnSettings {
  double gain = 1.0 / 256;            ///< g: weight of the newest report in alpha
  uint32_t alpha_timer_us = 55;       ///< alpha decays after so long without a report
  uint32_t increase_timer_us = 55;    ///< T: the rate rises this often
  uint32_t byte_counter_kib = 10240;  ///< B: and each time so much was sent
  uint32_t fast_recovery = 5;         ///< F: steps back towards the rate before the cut
  uint32_t additive_mbps = 40;        ///< R_AI: step of the increase after that
  uint32_t hyper_mbps = 400;          ///< R_HAI: its step once both timer and counter have done F
  uint32_t min_rate_mbps = 100;       ///< the rate is never cut below
  uint32_t line_rate_mbps = 0;        ///< rate at first and most; 0: the port's, 100000 where it has none of its own
  uint32_t cnp_interval_us = 50;      ///< a queue pair reports marks at most this often; 0: never
};

/// Swift: a window, by the delay that packets see. Defaults as published (Kumar et al., "Swift: Delay is Simple and
/// Effective for Congestion Control in the Datacenter", SIGCOMM 2020), the range of flow scaling as twice the base.
struct SwiftSettings {
  double base_target_us = 25;         ///< delay that one large flow aims at
  double flow_scaling_us = 50;        ///< most that is added to it for small windows, of which there are many at a time
  double flow_scaling_min = 0.1;      ///< window, packets, at and below which all of that is added
  double flow_scaling_max = 100;      ///< window at and above which nothing is
  double additive_increase = 1.0;     ///< ai: packets per round trip
  double beta = 0.8;                  ///< strength of the decrease
  double max_decrease = 0.5;          ///< max_mdf: most that one decrease takes away, a share of the window
  double min_window = 0.001;          ///< packets; below 1 they are paced
  uint32_t reset_after_timeouts = 5;  ///< timeouts in a row after which the window is the least
};

/// Parameters of all algorithms.
struct CongestionSettings {
  CongestionAlgorithm algorithm = CongestionAlgorithm::none;  ///< of queue pairs that do not choose
  DcqcnSettings dcqcn{};
  SwiftSettings swift{};
};

}  // namespace uroce
