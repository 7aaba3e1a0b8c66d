#include "nldev/answer.h"

#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>

namespace uroce::nldev {

namespace {

struct TableRow {
  Table table;
  const char* name;
  uint16_t command, nest, entry, id;
};

constexpr TableRow kTables[] = {
    {Table::pd, "pd", RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY,
     RDMA_NLDEV_ATTR_RES_PDN},
    {Table::cq, "cq", RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
     RDMA_NLDEV_ATTR_RES_CQN},
    {Table::qp, "qp", RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY,
     RDMA_NLDEV_ATTR_RES_LQPN},
    {Table::cm_id, "cm_id", RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
     RDMA_NLDEV_ATTR_RES_CM_IDN},
    {Table::mr, "mr", RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY,
     RDMA_NLDEV_ATTR_RES_MRN},
    {Table::ctx, "ctx", RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
     RDMA_NLDEV_ATTR_RES_CTXN},
    {Table::srq, "srq", RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
     RDMA_NLDEV_ATTR_RES_SRQN},
};

/// Room that a packet keeps for the next entry of a table.
constexpr std::size_t kEntryRoom = 512;
constexpr uint8_t kSharedByNamespaces = 1;

bool has_port(const Attributes& entry) {
  return std::ranges::find(entry, uint16_t{RDMA_NLDEV_ATTR_PORT_INDEX}, &Attribute::type) != entry.end();
}

struct Request {
  nlmsghdr header{};
  std::map<uint16_t, uint32_t> numbers;

  uint16_t command() const { return RDMA_NL_GET_OP(header.nlmsg_type); }
  bool dump() const { return (header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP; }
  bool has(uint16_t type) const { return numbers.contains(type); }
  uint32_t at(uint16_t type) const { return has(type) ? numbers.at(type) : 0; }
};

/// The answers to one request.
class Answering {
 public:
  Answering(const Request& request, Source& source, std::vector<Bytes>& out)
      : request_(request), source_(source), out_(out), devices_(source.devices()) {}

  /// Returns 0, or the errno value.
  int run() {
    if (RDMA_NL_GET_CLIENT(request_.header.nlmsg_type) != RDMA_NL_NLDEV) return EINVAL;
    switch (request_.command()) {
      case RDMA_NLDEV_CMD_GET: return each_device([this](std::size_t i) { return device(i); });
      case RDMA_NLDEV_CMD_PORT_GET: return one_device([this](std::size_t i) { return port(i); });
      case RDMA_NLDEV_CMD_SYS_GET: return system();
      case RDMA_NLDEV_CMD_RES_GET: return each_device([this](std::size_t i) { return summary(i); });
      case RDMA_NLDEV_CMD_STAT_GET:
      case RDMA_NLDEV_CMD_STAT_GET_STATUS: return one_device([this](std::size_t i) { return statistic(i); });
      default: break;
    }
    const auto* const row = std::ranges::find(kTables, request_.command(), &TableRow::command);
    if (row == std::end(kTables)) return EOPNOTSUPP;
    return one_device([&](std::size_t i) { return request_.dump() ? table(*row, i) : object(*row, i); });
  }

  /// Adds the end of a list, an error or a receipt.
  void finish(int error) {
    if (error == 0 && request_.dump()) {
      Bytes& last = begin(NLMSG_DONE, NLM_F_MULTI);
      put_number(last, 0);
      end();
    } else if (error != 0 || (request_.header.nlmsg_flags & NLM_F_ACK) != 0) {
      Bytes& last = begin(NLMSG_ERROR, NLM_F_CAPPED);
      put_number(last, -error);
      const auto* const header = reinterpret_cast<const std::byte*>(&request_.header);
      last.insert(last.end(), header, header + sizeof request_.header);
      end();
    }
  }

 private:
  static void put_number(Bytes& out, int32_t number) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&number);
    out.insert(out.end(), bytes, bytes + sizeof number);
  }

  Bytes& begin(uint16_t type, uint16_t flags) {
    const nlmsghdr header{.nlmsg_len = 0,
                          .nlmsg_type = type,
                          .nlmsg_flags = flags,
                          .nlmsg_seq = request_.header.nlmsg_seq,
                          .nlmsg_pid = request_.header.nlmsg_pid};
    Bytes& packet = out_.emplace_back(sizeof header);
    std::memcpy(packet.data(), &header, sizeof header);
    return packet;
  }
  Bytes& begin() { return begin(request_.header.nlmsg_type, request_.dump() ? NLM_F_MULTI : 0); }
  void end() {
    const auto length = static_cast<uint32_t>(out_.back().size());
    std::memcpy(out_.back().data(), &length, sizeof length);
  }

  int one_device(const auto& act) {
    const uint32_t index = request_.at(RDMA_NLDEV_ATTR_DEV_INDEX);
    if (!request_.has(RDMA_NLDEV_ATTR_DEV_INDEX)) return EINVAL;
    if (index >= devices_.size()) return ENODEV;
    if (request_.has(RDMA_NLDEV_ATTR_PORT_INDEX) && request_.at(RDMA_NLDEV_ATTR_PORT_INDEX) != 1) return EINVAL;
    return act(index);
  }
  int each_device(const auto& act) {
    if (!request_.dump()) return one_device(act);
    int error = 0;
    for (std::size_t i = 0; i < devices_.size() && error == 0; ++i) error = act(i);
    return error;
  }

  Bytes& begin_for(std::size_t index) {
    Bytes& out = begin();
    append(out, {{RDMA_NLDEV_ATTR_DEV_INDEX, static_cast<uint32_t>(index)},
                 {RDMA_NLDEV_ATTR_DEV_NAME, devices_[index].name}});
    return out;
  }

  int device(std::size_t index) {
    const Device& one = devices_[index];
    append(begin_for(index), {{RDMA_NLDEV_ATTR_PORT_INDEX, uint32_t{1}},  // the number of ports
                              {RDMA_NLDEV_ATTR_CAP_FLAGS, one.capabilities},
                              {RDMA_NLDEV_ATTR_FW_VERSION, one.firmware},
                              {RDMA_NLDEV_ATTR_NODE_GUID, one.guid},
                              {RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, one.guid},
                              {RDMA_NLDEV_ATTR_DEV_NODE_TYPE, uint8_t{IBV_NODE_CA}},
                              {RDMA_NLDEV_ATTR_DEV_PROTOCOL, std::string("roce")}});
    end();
    return 0;
  }

  int port(std::size_t index) {
    if (!request_.dump() && !request_.has(RDMA_NLDEV_ATTR_PORT_INDEX)) return EINVAL;
    const Device& one = devices_[index];
    Bytes& out = begin_for(index);
    append(out, {{RDMA_NLDEV_ATTR_PORT_INDEX, uint32_t{1}},
                 {RDMA_NLDEV_ATTR_CAP_FLAGS, one.port_capabilities},
                 {RDMA_NLDEV_ATTR_PORT_STATE, one.port_state},
                 {RDMA_NLDEV_ATTR_PORT_PHYS_STATE, one.physical_state}});
    if (!one.interface.empty()) {
      append(out, {{RDMA_NLDEV_ATTR_NDEV_INDEX, one.interface_index}, {RDMA_NLDEV_ATTR_NDEV_NAME, one.interface}});
    }
    end();
    return 0;
  }

  int system() {
    append(begin(), Attribute{RDMA_NLDEV_SYS_ATTR_NETNS_MODE, kSharedByNamespaces});
    end();
    return 0;
  }

  int summary(std::size_t index) {
    std::vector<std::pair<const char*, uint64_t>> counts;
    for (const TableRow& row : kTables) {
      const auto objects = source_.objects(row.table, devices_[index]);
      if (!objects) return objects.error();
      counts.emplace_back(row.name, objects->size());
    }
    Bytes& out = begin_for(index);
    {
      const Nest nest(out, RDMA_NLDEV_ATTR_RES_SUMMARY);
      for (const auto& [name, count] : counts) {
        const Nest entry(out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
        append(out, {{RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, std::string(name)},
                     {RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, count}});
      }
    }
    end();
    return 0;
  }

  int table(const TableRow& row, std::size_t index) {
    const auto objects = source_.objects(row.table, devices_[index]);
    if (!objects) return objects.error();
    const bool of_port =
        request_.has(RDMA_NLDEV_ATTR_PORT_INDEX) && (row.table == Table::qp || row.table == Table::cm_id);
    auto next = objects->begin();
    do {
      Bytes& out = begin_for(index);
      {
        const Nest nest(out, row.nest);
        for (; next != objects->end() && out.size() + kEntryRoom < kMostBytes; ++next) {
          const Attributes entry = entry_of(row.table, *next);
          if (of_port && !has_port(entry)) continue;
          const Nest inner(out, row.entry);
          append(out, entry);
        }
      }
      end();
    } while (next != objects->end());
    return 0;
  }

  int object(const TableRow& row, std::size_t index) {
    if (!request_.has(row.id)) return EINVAL;
    const auto objects = source_.objects(row.table, devices_[index]);
    if (!objects) return objects.error();
    for (const Object& one : *objects) {
      const Attributes entry = entry_of(row.table, one);
      const auto is_id = [&](const Attribute& each) {
        return each.type == row.id && std::get<uint32_t>(each.value) == request_.at(row.id);
      };
      if (std::ranges::none_of(entry, is_id)) continue;
      append(begin_for(index), entry);
      end();
      return 0;
    }
    return ENOENT;
  }

  /// The port's counters. uroce has none that are bound to queue pairs or regions: their list is empty.
  int statistic(std::size_t index) {
    if (request_.has(RDMA_NLDEV_ATTR_STAT_RES)) return bound_counters(index);
    if (!request_.has(RDMA_NLDEV_ATTR_PORT_INDEX)) return EINVAL;
    const auto counters = source_.counters(devices_[index]);
    if (!counters) return counters.error();
    const bool values = request_.command() == RDMA_NLDEV_CMD_STAT_GET;
    Bytes& out = begin_for(index);
    append(out, Attribute{RDMA_NLDEV_ATTR_PORT_INDEX, uint32_t{1}});
    {
      const Nest nest(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
      for (uint32_t i = 0; const auto& [name, value] : *counters) {
        const Nest entry(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
        append(out, Attribute{RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name});
        if (values) append(out, Attribute{RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value});
        if (!values) append(out, Attribute{RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, i});
        ++i;
      }
    }
    end();
    return 0;
  }

  int bound_counters(std::size_t index) {
    if (request_.dump()) return 0;
    if (!request_.has(RDMA_NLDEV_ATTR_STAT_MODE)) return EOPNOTSUPP;
    append(begin_for(index),
           {{RDMA_NLDEV_ATTR_PORT_INDEX, uint32_t{1}}, {RDMA_NLDEV_ATTR_STAT_MODE, uint32_t{RDMA_COUNTER_MODE_NONE}}});
    end();
    return 0;
  }

  const Request& request_;
  Source& source_;
  std::vector<Bytes>& out_;
  const std::vector<Device> devices_;
};

}  // namespace

std::vector<Bytes> answer(std::span<const std::byte> packet, Source& source) {
  std::vector<Bytes> out;
  while (packet.size() >= sizeof(nlmsghdr)) {
    Request request;
    std::memcpy(&request.header, packet.data(), sizeof request.header);
    const std::size_t length = request.header.nlmsg_len;
    if (length < sizeof request.header || length > packet.size()) break;
    request.numbers = numbers_in(packet.subspan(sizeof request.header, length - sizeof request.header));
    // As in the kernel, control messages and what is no request have no answer.
    if ((request.header.nlmsg_flags & NLM_F_REQUEST) != 0 && request.header.nlmsg_type >= NLMSG_MIN_TYPE) {
      Answering answering(request, source, out);
      answering.finish(answering.run());
    }
    packet = packet.subspan(std::min<std::size_t>(NLMSG_ALIGN(length), packet.size()));
  }
  return out;
}

}  // namespace uroce::nldev
