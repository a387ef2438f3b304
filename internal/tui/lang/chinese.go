package lang

// chinese is Traditional Chinese, by the English text.
var chinese = map[string]string{
	// Screens and columns.
	"Runs": "執行", "Queue": "佇列", "Workers": "工作機", "Run": "執行", "Sweeps": "掃描", "Sweep": "掃描", "Study": "研究",
	"RUN": "編號", "NAME": "名稱", "WHERE": "位置", "PROGRESS": "進度", "LOSS": "損失", "USER": "使用者", "AGE": "時間",
	"KEY": "佇列", "CAP": "上限", "RUNNING": "執行中", "WAITING (in order)": "等候（依序）", "WHY THE FIRST WAITS": "第一個等候的原因",
	"TIME": "時間", "EVENT": "事件", "PAYLOAD": "內容", "KIND": "種類", "FILE": "檔案", "SIZE": "大小", "PATH": "路徑", "#": "#",
	"overview": "總覽", "charts": "圖表", "console": "輸出", "events": "事件", "outputs": "節點輸出", "files": "檔案", "facts": "詳情",
	"Move": "移動", "Everywhere": "所有畫面", "Sort": "排序", "Console and events": "輸出與事件",

	// Statuses and ends.
	"queued": "排隊中", "running": "執行中", "disconnected": "斷線", "succeeded": "成功", "failed": "失敗", "cancelled": "已取消", "interrupted": "中斷",
	"held": "暫緩", "user code": "程式錯誤", "out of memory": "記憶體不足", "killed": "被終止", "timeout": "逾時", "worker lost": "工作機失聯",
	"server": "控制端", "bad graph": "圖有誤", "online": "在線", "offline": "離線", "rejected": "遭拒",

	// Head and foot.
	"live": "即時", "connecting": "連線中", "Connecting…": "連線中…", "link lost": "連線中斷", "link lost %s": "連線中斷 %s", "trying again": "重試中",
	"%d running": "%d 執行中", "%d waiting": "%d 等候", "%d/%d cards busy": "%d/%d 張卡使用中", "%d/%d workers": "%d/%d 台工作機",
	"%s of %s runs": "%s / 共 %s 筆", "%d marked": "已標記 %d", "%d running, %d waiting": "%d 執行中，%d 等候", "1 machine": "1 台機器", "%d machines": "%d 台機器", "1 card": "1 張卡", "%d cards": "%d 張卡",
	"too small: %d×%d": "視窗太小：%d×%d", "%d×%d at least": "至少 %d×%d", "q quits": "q 離開", "It is tried again all the time; q quits.": "持續重試中；按 q 離開。",
	"regular expression, ! turns it around": "正規表示式，! 表示排除", "Nothing matches /%s": "沒有符合 /%s 的項目", "esc shows everything again": "按 esc 顯示全部",
	"copied %s": "已複製 %s",

	// Keys.
	"keys": "按鍵", "keys: %s": "按鍵：%s", "up": "上", "down": "下", "page up": "上一頁", "page down": "下一頁", "first": "最前", "last": "最後",
	"open": "開啟", "back": "返回", "filter": "篩選", "command": "指令", "quit": "離開", "to the shell": "回到殼層", "next screen": "下一個畫面", "screen before": "上一個畫面",
	"mark": "標記", "logs": "輸出", "describe": "詳情", "copy id": "複製編號", "delete": "刪除", "queue on…": "排到…", "new run": "新的執行", "cancel": "取消", "hold or release": "暫緩或釋放",
	"sort by run": "依編號排序", "sort by name": "依名稱排序", "sort by place": "依位置排序", "sort by progress": "依進度排序", "sort by loss": "依損失排序", "sort by age": "依時間排序",
	"add worker": "新增工作機", "(un)drain": "停收／恢復", "remove": "移除", "tabs": "分頁", "follow": "跟隨", "wrap lines": "自動換行", "tab before": "上一個分頁", "next tab": "下一個分頁",

	// Rows.
	"graph": "圖", "%s left": "剩 %s", "running %s": "已執行 %s", "done in %s": "耗時 %s", "stopping": "停止中", "stopping, %d s left": "停止中，剩 %d 秒",
	"cancelled before it started": "開始前已取消", "%s has run for %s": "%s 已執行 %s", "and %d more": "另有 %d 個", "%s ago": "%s 前",
	"No runs yet.": "還沒有任何執行。", "Start one with n, or in a shell with": "按 n 新增，或在殼層輸入", "Nothing runs and nothing waits.": "沒有執行中或等候中的項目。",

	// Sweeps and studies.
	"ID": "編號", "STATE": "狀態", "BEST": "最佳", "RANK": "名次", "PARAMS": "參數", "STATUS": "狀態", "OUTCOME": "結果", "TRY": "次", "SEED": "種子",
	"sweep": "掃描", "study": "研究", "cancelling": "取消中", "finished": "已完成", "missing": "遺失", "minimize": "最小化", "maximize": "最大化",
	"waiting": "等候", "active": "進行中", "scored": "有分數", "over time": "超時", "lost": "失聯", "refused": "遭拒",
	"max run seconds": "單次執行時限", "max active seconds": "總執行時限", "stopped: %s": "已停止：%s",
	"1 sweep": "1 個掃描", "%d sweeps": "%d 個掃描", "1 study": "1 個研究", "%d studies": "%d 個研究", "Reading…": "讀取中…",
	"No sweeps and no studies yet.": "還沒有掃描或研究。", "Queue a sweep with S, or in a shell with": "按 S 排入掃描，或在殼層輸入", "new sweep": "新的掃描", "Queue a sweep": "排入掃描",
	"as the file says": "依檔案", "go where the file says": "依檔案所定的位置執行",
	"%s%%: %s to %s": "%s%%：%s 至 %s", "%d not finite": "%d 個非有限值",
	"run the failed again": "重跑失敗的", "copy command": "複製指令", "its run is not there": "它的執行已不在", "it is not there any more": "已不存在",
	"Cancel this sweep?": "取消此掃描？", "Cancel this study?": "取消此研究？", "cancel it": "取消它", "What has ended stays as it is.": "已結束的維持原樣。",
	"its runs are stopping": "執行停止中", "%d stopped or stopping, %d had ended": "%d 個已停止或停止中，%d 個早已結束",
	"1 queued again": "已重新排入 1 個", "%d queued again": "已重新排入 %d 個", "%d of %d have a score": "%d / %d 有分數",

	"curves": "曲線", "the first %d; space marks others": "前 %d 個；按 space 標記其他", "seed %d": "種子 %d", "new study": "新的研究", "Queue a study": "排入研究", "times": "次數",

	// The log of actions.
	"Actions": "紀錄", "An action": "操作", "WHEN": "時間", "FROM": "來自", "DID": "操作", "WHAT": "對象", "DETAIL": "說明", "1 action": "1 筆操作", "%d actions": "%d 筆操作", "%s of the newest %s": "%s / 最新 %s 筆",
	"Nobody has changed anything yet.": "還沒有人更動過任何東西。", "In a shell the same log is": "在殼層可用", "when": "時間", "from": "來自", "did": "操作", "object": "對象", "detail": "說明",
	"open its run": "開啟其執行", "screens": "畫面", "sort by user": "依使用者排序", "sort by address": "依位址排序", "sort by what was done": "依操作排序", "sort by object": "依對象排序", "sort by number": "依序號排序", "sort by state": "依狀態排序",

	"key": "佇列", "takes": "容量", "1 run at a time": "一次 1 個執行", "%d runs at a time": "一次 %d 個執行", "method": "方法", "objective": "目標", "best": "最佳",

	// Files of a run.
	"Files": "檔案", "look into it": "查看內容", "copy path": "複製路徑", "path": "路徑", "kind": "種類", "size": "大小", "node": "節點", "meta": "附註", "made": "產生", "It lies on %s.": "它在 %s 上。", "It is no text.": "不是文字檔。",
	"the first %s": "前 %s", "the control plane's machine": "控制端的機器",
	"No output of a node was recorded for this run. Files that it put out are on 6.": "此執行沒有記錄節點輸出。產生的檔案在 6。", "A script has no nodes whose outputs could be recorded. Files that it put out are on 6.": "腳本沒有可記錄輸出的節點。產生的檔案在 6。",

	// A run.
	"%s on %s": "%s，位於 %s", "run": "執行", "nodes": "節點", "metrics": "指標", "no metrics yet": "尚無指標", "epoch": "週期", "epoch %s": "週期 %s", "step %s…%s": "步 %s…%s",
	"ended": "已結束", "following": "跟隨中", "paused, f follows": "暫停，按 f 跟隨", "%s lines let go": "已捨棄 %s 行", "%s bytes skipped": "略過 %s 位元組", "no output yet": "尚無輸出", "no output": "沒有輸出", "no events yet": "尚無事件",
	"It has put out no files.": "沒有產生檔案。",
	"this run was deleted":     "此執行已刪除", "id": "編號", "status": "狀態", "why": "原因", "end class": "結束類別", "where": "位置", "submitted": "送出", "started": "開始", "took": "耗時",
	"script": "腳本", "folder": "資料夾", "python": "Python", "exit code": "結束代碼", "peak memory": "記憶體峰值", "isolation": "隔離", "left over": "殘留程序",
	"tags": "標籤", "note": "備註", "git": "git", "user": "使用者", "copy of": "複製自", "attempt": "嘗試", "last output": "最後輸出",

	// Actions.
	"nothing to cancel: it has ended": "無可取消：已經結束", "Cancel %d runs?": "取消 %d 個執行？", "cancel them": "取消它們",
	"it had ended: %s": "已經結束：%s", "asked to stop; it has %g s": "已要求停止；期限 %g 秒", "only a waiting run can be held or released": "只有等候中的執行可以暫緩或釋放",
	"only a run that has ended can be deleted: cancel it first": "只能刪除已結束的執行：請先取消", "Delete this run?": "刪除此執行？", "Delete %d runs?": "刪除 %d 個執行？",
	"Events, metrics, console and files go with it.": "事件、指標、輸出與檔案會一併刪除。", "no": "否",
	"open the key with enter and choose a run": "請按 enter 展開並選擇執行", "no command %q; there are %s": "沒有指令 %q；可用：%s", "no run %q": "沒有執行 %q",
	"which run? Give its id": "哪一個執行？請給編號", "theme is one of %s": "佈景主題可為 %s", "lang is one of %s": "語言可為 %s",

	// Queueing.
	"Queue a new run": "排入新的執行", "Queue %s again": "再次排入 %s", "what": "檔案", "on": "機器", "devices": "裝置", "would": "將會", "queue": "排入", "queueing…": "排入中…", "queued as %s": "已排入，編號 %s",
	"whole card; a size such as 12GiB, or auto": "整張卡；或填大小如 12GiB，或 auto",
	"nothing of %s starts until it is released": "%s 暫停開始，直到釋放", "%s starts runs again": "%s 恢復開始",
	"cordoned": "已隔離", "in use by %s": "使用中：%s", "%.0f used %s %.0f promised / %s GiB": "已用 %.0f %s 承諾 %.0f / %s GiB",
	"this machine": "本機", "any": "任一台", "start at once": "立即開始", "start on the first machine that has room": "在第一台有空的機器開始",
	"wait: %s": "等候：%s", "wait until %s is back": "等到 %s 恢復連線", "wait: %s takes no new runs": "等候：%s 不接收新的執行", "%s busy until %s ends": "%s 使用中，等 %s 結束",
	"1 waits there already": "已有 1 個在等候", "%d wait there already": "已有 %d 個在等候",

	// Workers.
	"(un)cordon": "隔離／解除", "shared": "共用", "by memory": "依記憶體", "share by memory or not": "依記憶體共用或否", "queue a run here": "排到這裡", "copy name": "複製名稱", "choose one of its devices first": "請先選擇其中一個裝置", "nothing runs there": "那裡沒有執行",
	"%s takes no new runs; what runs there goes on": "%s 不接收新的執行；執行中的會繼續", "Keep runs from %s": "不讓執行使用 %s", "reason": "原因", "%s is shared by memory": "%s 依記憶體共用", "%s is not shared": "%s 不共用", "enter does it, esc leaves": "enter 確定，esc 離開",
	"control plane": "控制端", "draining": "停止接收", "degraded": "功能不全", "another version: finishes its runs": "版本不同：只完成現有執行", "direct": "直連", "tunnel": "通道",
	"no python": "沒有 Python", "no torch": "沒有 torch", "%d cores": "%d 核心", "up %s": "已連線 %s", "never seen": "從未連線", "last seen %s ago": "%s 前連線過",
	"(1 run held)": "（保留 1 個執行）", "(%d runs held)": "（保留 %d 個執行）", "resumes until %s": "保留至 %s", "lacks %d node types: %s": "缺少 %d 種節點：%s", "cordoned: %s": "已隔離：%s",
	"Add a worker": "新增工作機", "name": "名稱", "enter makes a token, esc leaves": "enter 產生權杖，esc 離開", "y copies it, any other key closes": "y 複製，其他鍵關閉",
	"On %s, run this (good for %s, once; it is not shown again):": "在 %s 上執行（%s 內有效，僅一次；不會再顯示）：",
	"%s takes runs again": "%s 恢復接收", "%s takes no new runs; %d go on there": "%s 不再接收新的執行；%d 個繼續進行",
	"this machine can't be drained; hold its runs, or stop the control plane": "本機無法停止接收；可暫緩其執行，或停止控制端",
	"this machine is the control plane's own":                                 "本機屬於控制端", "Remove worker %s?": "移除工作機 %s？", "%s is forgotten": "已移除 %s",
	"1 run is there and would be interrupted.": "有 1 個執行會被中斷。", "%d runs are there and would be interrupted.": "有 %d 個執行會被中斷。",
	"Nothing runs there. Its agent has to be enrolled again to come back.": "沒有執行在其上。若要恢復，其代理程式須重新登錄。",
	"address": "位址", "version": "版本", "problem": "問題", "state": "狀態", "platform": "平台", "cores": "核心", "memory": "記憶體", "torch": "torch", "via": "途徑",
	"why refused": "拒絕原因", "lacks": "缺少", "runs": "執行", "device": "裝置", "uuid": "UUID", "pci": "PCI", "process": "程序", "end": "結尾", "↓ more": "↓ 更多",
}

// chineseDeeds are the verbs and the kinds of the log of actions.
var chineseDeeds = map[string]string{
	"add": "新增", "backup": "備份", "call": "呼叫", "cancel": "取消", "drain": "停止接收", "enroll": "註冊", "hold": "暫緩", "open": "開啟", "pin": "保留", "rekey": "換鑰", "release": "釋放",
	"remove": "移除", "rerun": "重跑", "resume": "續行", "set": "設定", "stop": "停止", "submit": "送出", "test": "測試", "undrain": "恢復接收", "unpin": "取消保留",
	"database": "資料庫", "device": "裝置", "graph": "圖", "hook": "掛鉤", "queue": "佇列", "run": "執行", "server": "控制端", "study": "研究", "sweep": "掃描", "token": "權杖", "tunnel": "通道", "worker": "工作機",
}
