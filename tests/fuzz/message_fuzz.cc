// Arbitrary bytes as a client's message, decoded as each kind of message. Encoding an accepted message must give the
// same bytes: nothing is read past the end, nothing is left over, and lists are no longer than their bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "message/cm_messages.h"
#include "message/device_messages.h"
#include "message/hello_messages.h"
#include "message/memory_messages.h"
#include "message/operator_messages.h"
#include "message/queue_messages.h"
#include "message/succession_messages.h"

namespace {

using namespace uroce;

void require(bool condition) {
  if (!condition) std::abort();
}

template <class T>
void check(std::span<const std::byte> bytes) {
  T value;
  if (!message::decode(bytes, value)) return;
  std::vector<std::byte> again;
  message::encode(again, value);
  require(again.size() == bytes.size());
  // A bool is read from any byte and written as 0 or 1; a second time round nothing changes.
  T second;
  require(message::decode(again, second));
  std::vector<std::byte> third;
  message::encode(third, second);
  require(third == again);
}

template <class... T>
void check_all(std::span<const std::byte> bytes) {
  (check<T>(bytes), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  message::Reader reader(bytes);
  message::RequestHeader header;
  reader(header);
  using namespace message;
  if (reader.good()) {
    check_all<Hello, OpenDevice, PrepareMemory, AddSegments, RegisterMemory, ReregisterMemory, CreateCq, ResizeCq,
              CreateSrq, ResizeSrq, CreateQp, ModifyQp, CreateAddressHandle, CreateFlow, Multicast, Destroy,
              ListClients, ListObjects, Handle, Empty, CmCreateId, CmBind, CmResolve, CmListen, CmTerms, CmReject,
              CmQpAttr, CmSetOption, CmGroup, CmRaiseEvent, CmMigrate, TakeOver, StepHeader, BelongingNames,
              SuccessorVersions>(reader.rest());
  }
  // And what a daemon may say to a client.
  message::Reader from_daemon(bytes);
  ReplyHeader reply;
  from_daemon(reply);
  if (from_daemon.good()) {
    check_all<HelloReply, OpenDeviceReply, RegisterMemoryReply, CreateCqReply, ResizeCqReply, CreateSrqReply,
              ResizeSrqReply, CreateQpReply, CreateAddressHandleReply, QpAttr, Counters, Clock, LinkUp, ClientRows,
              ObjectRows, CmChannelReply, CmEventsReply, CmInfoReply, ModifyStep>(from_daemon.rest());
  }
  return 0;
}
