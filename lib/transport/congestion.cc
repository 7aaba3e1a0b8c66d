#include "transport/congestion.h"

namespace uroce::transport {

std::unique_ptr<CongestionControl> make_congestion_control(CongestionAlgorithm algorithm,
                                                           const CongestionSettings& settings, uint32_t packet_bytes,
                                                           uint32_t window, Nanos now) {
  (void)algorithm;
  (void)settings;
  (void)packet_bytes;
  (void)window;
  (void)now;
  return nullptr;
}

}  // namespace uroce::transport
