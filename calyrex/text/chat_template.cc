#include "calyrex/text/chat_template.h"

#include "calyrex/base/error.h"
#include "calyrex/text/bridge_call.h"

namespace calyrex::text {

struct ChatTemplate::Handle {
  CalyrexTemplate* raw = nullptr;

  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { calyrex_template_free(raw); }
};

ChatTemplate::ChatTemplate(std::string source, std::string name)
    : source_(std::move(source)), name_("chat template of " + std::move(name)) {
  auto handle = std::make_shared<Handle>();
  BridgeBytes error;
  check_bridge(calyrex_template_compile(bridge_view(source_), &handle->raw, error.out()), error, name_);
  handle_ = std::move(handle);
}

std::vector<Rendering> ChatTemplate::render(const std::vector<TemplateChat>& chats,
                                            const std::vector<RenderVariant>& variants) const {
  Json request = {{"chats", Json::array()}, {"variants", Json::array()}};
  for (const TemplateChat& chat : chats) {
    request["chats"].push_back({{"messages", chat.messages}, {"context", chat.context}});
  }
  for (const RenderVariant& variant : variants) {
    request["variants"].push_back({{"chat", variant.chat},
                                   {"count", variant.count},
                                   {"add_generation_prompt", variant.generation_prompt}});
  }
  BridgeBytes response, error;
  const auto status =
      calyrex_template_render(handle_->raw, bridge_view(to_json_line(request)), response.out(), error.out());
  check_bridge(status, error, name_);
  std::vector<Rendering> renderings;
  for (Json& item : Json::parse(response.view())) {
    Rendering& rendering = renderings.emplace_back();
    rendering.ok = item.contains("text");
    rendering.text = std::move(item[rendering.ok ? "text" : "error"].get_ref<std::string&>());
    rendering.refused = !rendering.ok && item["status"] == CALYREX_REFUSED;
  }
  return renderings;
}

}  // namespace calyrex::text
