package lang

import (
	"fmt"

	"cdui/internal/api"
	"cdui/internal/run"
)

// chineseReasons puts each reason for waiting into words.
//
//nolint:gochecknoglobals // a table
var chineseReasons = map[string]func(params) string{
	run.ReasonSlotBusy: func(p params) string { return fmt.Sprintf("%s 正被 %s 使用", p.one("device"), p.list("runs")) },
	run.ReasonBehind:   func(p params) string { return fmt.Sprintf("排在 %s 之後", p.id("run")) },
	run.ReasonSetWait: func(p params) string {
		return fmt.Sprintf("等候全部裝置：%s 正被 %s 使用", p.list("devices"), p.list("runs"))
	},
	run.ReasonHeld: func(params) string { return "已暫緩；釋放後才會排隊" },
	run.ReasonAfter: func(p params) string {
		if p["never"] == true {
			return fmt.Sprintf("%s 已結束（%s），不符合條件 %s：請取消，或釋放後照常執行", p.id("run"), p.one("status"), p.one("condition"))
		}
		return fmt.Sprintf("等候 %s 結束（%s）", p.id("run"), p.one("condition"))
	},
	run.ReasonNoDevice:       func(p params) string { return fmt.Sprintf("等候提供 %s 的工作機", p.list("devices")) },
	run.ReasonCardUnhealthy:  func(p params) string { return fmt.Sprintf("%s 狀態異常：%s", p.one("device"), p.one("why")) },
	run.ReasonWorkerOffline:  func(p params) string { return fmt.Sprintf("等候工作機 %s 重新連線", p.one("worker")) },
	run.ReasonWorkerDraining: func(p params) string { return fmt.Sprintf("工作機 %s 正在停止接收", p.one("worker")) },
	run.ReasonAllDraining: func(p params) string {
		return fmt.Sprintf("等候提供 %s 的工作機：%s 正在停止接收", p.list("devices"), p.list("workers"))
	},
	run.ReasonNodeTypes: func(p params) string {
		return fmt.Sprintf("等候具備所需節點類型的工作機：%s 有缺", p.list("workers"))
	},
}

// chineseCodes puts each code of the API into words.
//
//nolint:gochecknoglobals // a table
var chineseCodes = map[api.Code]string{
	api.Invalid:      "內容不正確",
	api.Unreadable:   "無法解讀",
	api.TooLarge:     "內容過大",
	api.Unauthorized: "沒有權限",
	api.Misdirected:  "主機名稱不被接受",
	api.NotFound:     "找不到",
	api.Conflict:     "狀態不允許",
	api.TooMany:      "請求過多",
	api.Unavailable:  "暫時無法使用",
	api.StorageFull:  "儲存空間已滿",
	api.StorageBusy:  "儲存忙碌",
	api.Internal:     "內部錯誤",
}
