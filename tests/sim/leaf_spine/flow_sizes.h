// Flow sizes of published traffic: points of their cumulative distributions, linear between.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "base/random.h"

namespace uroce::sim {

struct SizePoint {
  double bytes;
  double percent;  ///< of the flows that are no larger
};

/// Web search: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, as Li et al., "HPCC", SIGCOMM 2019 give it in
/// github.com/alibaba-edu/High-Precision-Congestion-Control, traffic_gen/WebSearch_distribution.txt.
inline constexpr SizePoint kWebSearch[] = {{0, 0},          {10'000, 15},    {20'000, 20},     {30'000, 30},
                                           {50'000, 40},    {80'000, 53},    {200'000, 60},    {1'000'000, 70},
                                           {2'000'000, 80}, {5'000'000, 90}, {10'000'000, 97}, {30'000'000, 100}};

/// Storage: a distribution of Alibaba's, traffic_gen/AliStorage2019.txt there.
inline constexpr SizePoint kStorage[] = {{0, 0},           {4'000, 22.93},   {8'000, 69.21},
                                         {16'000, 80.61},  {32'000, 90.47},  {64'000, 93.53},
                                         {128'000, 96.77}, {256'000, 97.53}, {2'000'000, 100}};

/// Draws one, at least a byte.
inline uint64_t draw_size(std::span<const SizePoint> points, Random& random) {
  const double percent = static_cast<double>(random.next() >> 11) * 0x1p-53 * 100;
  std::size_t i = 1;
  while (points[i].percent <= percent) ++i;
  const SizePoint &before = points[i - 1], &after = points[i];
  const double share = (percent - before.percent) / (after.percent - before.percent);
  return static_cast<uint64_t>(std::fmax(1, std::round(before.bytes + share * (after.bytes - before.bytes))));
}

inline double mean_size(std::span<const SizePoint> points) {
  double mean = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    mean += (points[i].percent - points[i - 1].percent) / 100 * (points[i].bytes + points[i - 1].bytes) / 2;
  }
  return mean;
}

}  // namespace uroce::sim
