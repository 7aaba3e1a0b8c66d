#include "transport/congestion/algorithms.h"

#include "transport/congestion/dcqcn.h"
#include "transport/congestion/swift.h"

namespace uroce::transport {

std::unique_ptr<CongestionControl> make_congestion_control(CongestionAlgorithm algorithm,
                                                           const CongestionSettings& settings, uint32_t packet_bytes,
                                                           uint32_t window, Nanos now) {
  if (algorithm == CongestionAlgorithm::device_default) algorithm = settings.algorithm;
  switch (algorithm) {
    case CongestionAlgorithm::dcqcn: return std::make_unique<Dcqcn>(settings.dcqcn, packet_bytes, window);
    case CongestionAlgorithm::swift: return std::make_unique<Swift>(settings.swift, packet_bytes, window, now);
    default: return nullptr;
  }
}

}  // namespace uroce::transport
