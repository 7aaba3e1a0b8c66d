#include "net/kernel_tables.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

namespace uroce::net {

KernelTables::KernelTables(LinkIdentity interface, Kernel kernel)
    : interface_(std::move(interface)),
      requests_(std::move(kernel.ask)),
      reading_(interface_, requests_),
      addresses_(counters_),
      neighbours_(interface_, addresses_, std::move(kernel.probe), counters_),
      routes_(interface_, addresses_, neighbours_, requests_, counters_) {}

void KernelTables::read_all(Nanos now) { reading_.begin(now); }

void KernelTables::move_to(uint32_t index, Nanos now) {
  interface_.index = index;
  read_all(now);
  routes_.ask_again(now);
}

void KernelTables::on_overrun(Nanos now) {
  counters_.overruns.add();
  routes_.forget_questions();
  routes_.ask_again(now);
  read_all(now);
}

void KernelTables::on_news(std::span<const std::byte> datagram, Nanos now) {
  const bool whole = parse_rtnetlink(datagram, [&](const KernelMessage& message) {
    counters_.messages.add();
    std::visit(
        [&]<class News>(const News& news) {
          if constexpr (std::is_same_v<News, AddressNews>) {
            take(news);
            if (news.interface == interface_.index) routes_.ask_again(now);
          } else if constexpr (std::is_same_v<News, NeighbourNews>) {
            if (news.interface == interface_.index) neighbours_.take(news, reading_.number(), now);
          } else if constexpr (std::is_same_v<News, LinkNews>) {
            take(news);
          } else if constexpr (!std::is_same_v<News, AnswerEnd>) {
            routes_.ask_again(now);
          }
        },
        message.news);
  });
  if (!whole) counters_.malformed.add();
}

void KernelTables::on_answers(std::span<const std::byte> datagram, Nanos now) {
  const bool whole = parse_rtnetlink(datagram, [&](const KernelMessage& message) {
    counters_.messages.add();
    if (reading_.expects(message)) return take_entry(message, now);
    routes_.take_answer(message, now);
  });
  if (!whole) counters_.malformed.add();
}

void KernelTables::take_entry(const KernelMessage& message, Nanos now) {
  reading_.take(message, now);
  if (const auto* address = std::get_if<AddressNews>(&message.news)) take(*address);
  if (const auto* neighbour = std::get_if<NeighbourNews>(&message.news)) {
    neighbours_.take(*neighbour, reading_.number(), now);
  }
  const auto* end = std::get_if<AnswerEnd>(&message.news);
  if (end == nullptr || end->error != 0) return;  // after a refusal poll() tries again
  if (!reading_.end_table(now)) return;
  if (reading_.reads_addresses()) {
    addresses_.forget_unread(reading_.number());
  } else {
    neighbours_.forget_unread(reading_.number(), now);
  }
  reading_.go_on(now);
}

void KernelTables::take(const AddressNews& news) {
  if (news.interface == interface_.index) addresses_.take(news, reading_.number());
}

void KernelTables::take(const LinkNews& news) {
  if (news.interface != interface_.index || (news.mac == link_.mac && news.mtu == link_.mtu)) return;
  link_ = news;
  link_changed_ = true;
}

std::optional<LinkNews> KernelTables::take_link() {
  return std::exchange(link_changed_, false) ? std::optional(link_) : std::nullopt;
}

void KernelTables::poll(Nanos now) {
  if (reading_.deadline() <= now) {
    reading_.abandon();
    on_overrun(now);
  }
  routes_.poll(now);
  neighbours_.poll(now);
}

Nanos KernelTables::next_deadline() const {
  return std::min({reading_.deadline(), routes_.next_deadline(), neighbours_.next_deadline()});
}

}  // namespace uroce::net
