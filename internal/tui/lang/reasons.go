package lang

import (
	"fmt"

	"cdui/internal/api"
	"cdui/internal/run"
)

// chineseReasons puts each reason for waiting into words.

var chineseReasons = map[string]func(params) string{
	run.ReasonSlotBusy: func(p params) string {
		if p["kept_for"] != nil {
			return fmt.Sprintf("%s 保留給 %s，它在等候全部裝置", p.one("device"), p.id("kept_for"))
		}
		return fmt.Sprintf("%s 正被 %s 使用", p.one("device"), p.list("runs"))
	},
	run.ReasonBehind: func(p params) string { return fmt.Sprintf("排在 %s 之後", p.id("run")) },
	run.ReasonSetWait: func(p params) string {
		return fmt.Sprintf("等候全部裝置：%s 正被 %s 使用", p.list("devices"), p.list("runs"))
	},
	run.ReasonHeld: func(p params) string {
		if p["key"] == nil {
			return "已暫緩；釋放後才會排隊"
		}
		if note := p.one("note"); p["note"] != nil && note != "" {
			return fmt.Sprintf("佇列 %s 已暫緩：%s", p.one("key"), note)
		}
		return fmt.Sprintf("佇列 %s 已暫緩", p.one("key"))
	},
	run.ReasonBackoff: func(p params) string {
		return fmt.Sprintf("重試 %s（第 %s 次，共 %s 次），%s 開始", p.id("run"), p.one("number"), p.one("limit"), p.clock("until"))
	},
	run.ReasonCardInUse: func(p params) string { return fmt.Sprintf("%s 正被他人使用：%s", p.one("device"), p.one("who")) },
	run.ReasonCordoned: func(p params) string {
		if why := p.one("why"); p["why"] != nil && why != "" {
			return fmt.Sprintf("%s 已隔離：%s", p.one("device"), why)
		}
		return fmt.Sprintf("%s 已隔離", p.one("device"))
	},
	run.ReasonMemoryWait:   memoryWait,
	run.ReasonBudgetRaised: func(p params) string { return memoryWait(p) + "；記憶體不足後已提高估計" },
	run.ReasonMemoryNoBudget: func(p params) string {
		return fmt.Sprintf("未指定 --memory，須等 %s 完全空出：%s 仍在使用", p.one("device"), p.list("runs"))
	},
	run.ReasonStorage: func(p params) string {
		return fmt.Sprintf("等候能存取其檔案（%s）的工作機：%s 無法存取", p.one("storage"), p.list("workers"))
	},
	run.ReasonOneShotStart: func(params) string { return "等候一次性工作機：尚無連線" },
	run.ReasonOneShotTaken: func(p params) string {
		return fmt.Sprintf("等候一次性工作機：%s 已有執行", p.list("workers"))
	},
	run.ReasonOneShotRunID: func(p params) string {
		return fmt.Sprintf("等候一次性工作機：%s 是為其他執行啟動的", p.list("workers"))
	},
	run.ReasonOneShotPool: func(p params) string { return fmt.Sprintf("等候提供 %s 的一次性工作機", p.list("devices")) },
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

func memoryWait(p params) string {
	if p["never"] == true {
		return fmt.Sprintf("等候有 %s 的卡；現有最大的 %s 只有 %s", p.size("asked_mib"), p.one("device"), p.size("total_mib"))
	}
	words := fmt.Sprintf("在 %s 等候 %s，目前可分配 %s", p.one("device"), p.size("asked_mib"), p.size("room_mib"))
	if list := p.list("runs"); list != "" && list != "?" {
		return words + "，直到 " + list + " 之一結束"
	}
	return words + "：其餘被他人使用"
}

// chineseCodes puts each code of the API into words.

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
