// The things that a daemon has a bounded amount of, and that its users share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace uroce::service {

enum class Resource : uint8_t {
  connection,  ///< of a program, with a thread of the daemon
  qp,
  cq,  ///< and completion channels, each on its own
  srq,
  mr,  ///< and memory windows, which share the device's keys
  pd,
  ah,
  flow,  ///< receive rules of raw packet queue pairs
  cm_id,
  descriptor,
  mapping,           ///< pieces of registered memory in the daemon's address space (vm.max_map_count)
  queue_bytes,       ///< memory of queues, which is the daemon's
  registered_bytes,  ///< the client's memory, which the daemon maps
};

struct ResourceName {
  Resource resource;
  std::string_view setting;  ///< key of the configuration's [limits]
  std::string_view plural;
  uint32_t memory = 0;      ///< bytes of the daemon's memory that one takes, measured and rounded up
  std::string_view also{};  ///< the other setting that bounds it, for error texts
};

inline constexpr std::array<ResourceName, 13> kResourceNames{{
    {Resource::connection, "max_connections", "connections", 65536, "; daemon.max_clients"},
    {Resource::qp, "max_qp", "queue pairs", 8192, "; engines.max_qp"},
    {Resource::cq, "max_cq", "completion queues", 1024},
    {Resource::srq, "max_srq", "shared receive queues", 2048},
    {Resource::mr, "max_mr", "memory regions and windows", 8704, "; engines.max_mr"},
    {Resource::pd, "max_pd", "protection domains", 512},
    {Resource::ah, "max_ah", "address handles", 1024},
    {Resource::flow, "max_flow", "receive rules", 1024},
    {Resource::cm_id, "max_cm_id", "communication ids", 2048},
    {Resource::descriptor, "max_descriptors", "descriptors of the daemon", 4096, "; LimitNOFILE"},
    {Resource::mapping, "max_mappings", "pieces of registered memory", 256, "; vm.max_map_count"},
    {Resource::queue_bytes, "max_queue_bytes", "bytes of queues", 1},
    {Resource::registered_bytes, "max_registered_bytes", "bytes of registered memory"},
}};
inline constexpr std::size_t kResources = kResourceNames.size();

constexpr const ResourceName& name_of(Resource resource) { return kResourceNames[static_cast<std::size_t>(resource)]; }

/// Bytes of the daemon's memory that so much of a resource takes. Registered memory is the client's, and takes page
/// tables: two for a region, and 8 bytes for each page of 4096.
constexpr uint64_t memory_of(Resource resource, uint64_t amount) {
  return resource == Resource::registered_bytes ? amount / 512 : amount * name_of(resource).memory;
}

/// One number for each resource; 0 where none is given.
template <class T>
class PerResource {
 public:
  constexpr PerResource() = default;
  constexpr PerResource(std::initializer_list<std::pair<Resource, T>> some) {
    for (const auto& [resource, value] : some) (*this)[resource] = value;
  }
  constexpr T& operator[](Resource resource) { return values_[static_cast<std::size_t>(resource)]; }
  constexpr const T& operator[](Resource resource) const { return values_[static_cast<std::size_t>(resource)]; }
  bool operator==(const PerResource&) const = default;

 private:
  std::array<T, kResources> values_{};
};

/// Limits that an operator sets; 0: automatic.
using Limits = PerResource<uint64_t>;

}  // namespace uroce::service
