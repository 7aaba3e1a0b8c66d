// A protection domain of the daemon, and what belongs to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "client/daemon_object.h"
#include "client/memory.h"
#include "client/protection_domain.h"
#include "client/region_parts.h"
#include "message/memory_messages.h"
#include "sharing/sharing.h"

namespace uroce::client {

class DaemonPd final : public PdImpl {
 public:
  DaemonPd(const ContextImpl& context, std::shared_ptr<DeviceLink> link, uint32_t id)
      : PdImpl(context), object(std::make_shared<DaemonObject>(link, message::Kind::pd, id)), link_(std::move(link)) {}

  Result<std::shared_ptr<MrImpl>> register_memory(void* address, std::size_t length, uint64_t base,
                                                  AccessFlags access) override;
  Result<void> reregister(MrImpl& mr, void* address, std::size_t length, uint64_t base, AccessFlags access) override;
  Result<std::shared_ptr<MrImpl>> register_dmabuf(int fd, uint64_t offset, std::size_t length, uint64_t base,
                                                  AccessFlags access) override;
  Result<std::shared_ptr<MrImpl>> create_null_region() override;
  Result<std::shared_ptr<MwImpl>> create_window(WindowType type) override;
  Result<std::shared_ptr<AhImpl>> create_address_handle(const AddressVector& av) override;

  const Object object;

 private:
  struct Shared {
    Object range{};
    message::RegisterMemory request{};
    std::vector<sharing::SharedSegment> segments{};
  };
  Result<Shared> share(void* address, std::size_t length, uint64_t base, AccessFlags access) const;
  /// The part that the request itself carries. Where the segments do not fit in one message, it is empty, because the
  /// daemon has them all then. `preparing` is held until the request is answered.
  Result<RegionPart> prepare(Shared& shared, std::unique_lock<std::mutex>& preparing) const;
  std::shared_ptr<MrImpl> region_of(const message::RegisterMemoryReply& reply) const;

  std::shared_ptr<DeviceLink> link_;
};

}  // namespace uroce::client
