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
  std::string_view also{};  ///< the other setting that bounds it, for error texts
};

inline constexpr std::array<ResourceName, 13> kResourceNames{{
    {Resource::connection, "max_connections", "connections", "; daemon.max_clients"},
    {Resource::qp, "max_qp", "queue pairs", "; engines.max_qp"},
    {Resource::cq, "max_cq", "completion queues"},
    {Resource::srq, "max_srq", "shared receive queues"},
    {Resource::mr, "max_mr", "memory regions and windows", "; engines.max_mr"},
    {Resource::pd, "max_pd", "protection domains"},
    {Resource::ah, "max_ah", "address handles"},
    {Resource::flow, "max_flow", "receive rules"},
    {Resource::cm_id, "max_cm_id", "communication ids"},
    {Resource::descriptor, "max_descriptors", "descriptors of the daemon", "; LimitNOFILE"},
    {Resource::mapping, "max_mappings", "pieces of registered memory", "; vm.max_map_count"},
    {Resource::queue_bytes, "max_queue_bytes", "bytes of queues"},
    {Resource::registered_bytes, "max_registered_bytes", "bytes of registered memory"},
}};
inline constexpr std::size_t kResources = kResourceNames.size();

constexpr const ResourceName& name_of(Resource resource) { return kResourceNames[static_cast<std::size_t>(resource)]; }

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
